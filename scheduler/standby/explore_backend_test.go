package standby_test

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// backendNode is a backend's process: the core, and GPUs.
type backendNode struct {
	p    *proc
	core standby.Backend
	out  standby.Effects
	ends []*end
	gpus []*gpu
	ever map[wire.Epoch]bool // promised
}

// gpu runs one batch at a time, in the order in which they came.
type gpu struct {
	waiting []*task
	running *order
}

type task struct {
	order *order
	ready bool
}

func (n *backendNode) boot() {
	n.core, n.ends, n.ever = standby.Backend{}, nil, map[wire.Epoch]bool{}
	for i := range n.gpus {
		n.gpus[i] = &gpu{}
	}
}

func (n *backendNode) stop()               {}
func (n *backendNode) refused(*keeper)     {}
func (n *backendNode) wake()               {}
func (n *backendNode) nextWake() mono.Time { return mono.Never }

func (n *backendNode) up(e *end) {
	n.ends = append(n.ends, e)
	e.send(join{len(n.gpus)})
}

func (n *backendNode) down(e *end) {
	n.ends = slices.DeleteFunc(n.ends, func(x *end) bool { return x == e })
	n.core.Down(e.number, &n.out)
	n.carryOut()
}

func (n *backendNode) receive(e *end, m any) {
	switch m := m.(type) {
	case admitted:
		n.core.Up(e.number, e.peer.life, &n.out)
		n.carryOut()
	case wire.Promise:
		n.core.Promise(e.number, m, &n.out)
		n.carryOut()
	case *order:
		if n.core.Obeys(e.number, m.reign) || n.p.w.plant == plantPromiseBroken && n.ever[m.reign] {
			n.take(m)
		}
	}
}

// take puts a batch before its GPU; its inputs are on their way.
func (n *backendNode) take(o *order) {
	g, life, t := n.gpus[o.gpu], n.p.life, &task{order: o}
	g.waiting = append(g.waiting, t)
	n.p.w.after(n.p.w.span(50*mono.Microsecond, 500*mono.Microsecond), func() {
		n.p.do(life, func() {
			t.ready = true
			n.begin(g)
		})
	})
}

// begin runs the next batch, if the GPU is free and its inputs are there.
func (n *backendNode) begin(g *gpu) {
	if g.running != nil || len(g.waiting) == 0 || !g.waiting[0].ready {
		return
	}
	w, life, o := n.p.w, n.p.life, g.waiting[0].order
	g.waiting = slices.Delete(g.waiting, 0, 1)
	g.running = o
	w.check.begins(n, g, o)
	w.after(w.span(mono.Millisecond, 7*mono.Millisecond), func() {
		if n.p.alive && n.p.life == life {
			w.check.ends(g) // also while the process stands still
		}
		n.p.do(life, func() { n.ended(g, o) })
	})
}

// ended sends outputs to frontends, and the report to whom is obeyed now.
func (n *backendNode) ended(g *gpu, o *order) {
	g.running = nil
	w := n.p.w
	for _, it := range o.items {
		for _, f := range w.frontends {
			if f.p.alive && f.p.life == it.key.instance {
				w.net.datagram(n.p, f.p, func() { f.output(it.key) })
			}
		}
	}
	for _, e := range n.ends {
		if e.number == n.core.Obeyed() {
			e.send(done{o})
		}
	}
	n.begin(g)
}

func (n *backendNode) carryOut() {
	out := n.out
	for i := range out {
		switch e := &out[i]; e.Kind {
		case standby.Fence:
			n.ever[e.Reign] = true
			n.fence(e)
		case standby.Tell:
			if e.Promised.Epoch == e.Promised.Highest && e.Promised.Epoch != 0 {
				n.p.w.check.promised(n.p.life, e.Promised.Epoch)
			}
			n.send(e.Link, e.Promised)
		}
	}
	n.out = out[:0]
}

func (n *backendNode) send(link standby.Link, m any) {
	for _, e := range n.ends {
		if e.number == link {
			e.send(m)
		}
	}
}

// fence gives up what has not begun, unless it is kept, and tells of the rest.
func (n *backendNode) fence(e *standby.Effect) {
	for i, g := range n.gpus {
		if g.running != nil {
			n.send(e.Link, running{g.running, i})
		}
		switch {
		case e.Keep:
			for _, t := range g.waiting {
				t.order.kept = true
				n.send(e.Link, running{t.order, i})
			}
		case n.p.w.plant != plantPromiseBroken:
			g.waiting = nil
		}
	}
}
