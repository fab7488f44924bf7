package standby_test

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// frontendNode is a frontend's process: the core, and open requests.
type frontendNode struct {
	p     *proc
	core  *standby.Frontend
	links []*end // by scheduler
	open  []openRequest
	ids   wire.RequestID
	next  mono.Time // request, by the world's clock
	pause mono.Dur  // between requests, about
}

type openRequest struct {
	key      key
	deadline mono.Time // by the world's clock
}

func (n *frontendNode) boot() {
	w := n.p.w
	n.core, n.links, n.open = standby.NewFrontend(len(w.schedulers)), make([]*end, len(w.schedulers)), nil
	n.next = w.now.Add(w.span(0, n.pause))
}

func (n *frontendNode) stop() {
	for _, r := range n.open { // nobody waits for them any more
		delete(n.p.w.check.asked, r.key)
		n.p.w.check.tally.requests--
	}
	n.open = nil
}

func (n *frontendNode) refused(*keeper) {}

func (n *frontendNode) nextWake() mono.Time {
	at := n.next
	for _, r := range n.open {
		at = min(at, r.deadline)
	}
	return at.Add(n.p.offset)
}

// slack is how late the process may be with an answer: it stood still.
func (n *frontendNode) slack() mono.Dur { return 5*mono.Millisecond + n.p.stood }

func (n *frontendNode) wake() {
	w := n.p.w
	for i := 0; i < len(n.open); {
		if n.open[i].deadline <= w.now {
			n.answer(i, false)
			continue
		}
		i++
	}
	if w.now < n.next {
		return
	}
	n.next = w.now.Add(w.span(0, 2*n.pause))
	if w.chance(0.01) {
		n.next = n.next.Add(w.span(0, 1500*mono.Millisecond)) // nobody asks: beats become rare
	}
	n.ids++
	r := openRequest{key{n.p.life, n.ids}, w.now.Add(w.span(30*mono.Millisecond, 120*mono.Millisecond))}
	n.open = append(n.open, r)
	w.check.asks(r.key, r.deadline)
	n.submit(r)
}

func (n *frontendNode) submit(r openRequest) {
	if i, _, ok := n.core.Leader(); ok {
		n.links[i].send(submit{r.key, r.deadline})
	}
}

// again sends all that is open.
func (n *frontendNode) again(yes bool) {
	if !yes {
		return
	}
	for _, r := range n.open {
		n.p.w.check.tally.again++
		n.submit(r)
	}
}

func (n *frontendNode) answer(i int, served bool) {
	r := n.open[i]
	n.open = slices.Delete(n.open, i, i+1)
	n.p.w.check.answered(r.key, served, n.slack())
}

func (n *frontendNode) output(k key) {
	if i := slices.IndexFunc(n.open, func(r openRequest) bool { return r.key == k }); i >= 0 {
		n.answer(i, true)
	}
}

func (n *frontendNode) up(e *end) { e.send(join{}) }

func (n *frontendNode) down(e *end) {
	if n.links[e.place] == e {
		n.links[e.place] = nil
	}
	n.again(n.core.Down(e.place, e.number))
}

func (n *frontendNode) receive(e *end, m any) {
	switch m := m.(type) {
	case admitted:
		n.links[e.place] = e
		n.again(n.core.Up(e.place, e.number))
	case wire.Lead:
		n.again(n.core.Lead(e.place, e.number, m))
	}
}
