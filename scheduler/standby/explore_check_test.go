package standby_test

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/standby"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// checker knows what was done, from what went over the network and what GPUs did, not from what
// the cores say of themselves.
type checker struct {
	w        *world
	owners   map[wire.Epoch]uint64 // reign -> the life that used it
	promises map[promise]bool      // backends' lives have said yes to
	highest  map[uint64]wire.Epoch // of them, by life
	gpus     map[*gpu]*order       // what runs
	runs     map[key][]*order      // of each request
	asked    map[key]*asked
	known    map[known][]belief // of servers
	calm     bool
	tally    tally
}

type promise struct {
	life  uint64
	reign wire.Epoch
}

// key names a request: of a frontend's process.
type key struct {
	instance uint64
	id       wire.RequestID
}

// known is a request at a server, belief that it runs at the backend on a link.
type known struct {
	server *server
	key    key
}

type belief struct {
	order *order
	link  *end
}

type asked struct {
	deadline mono.Time
	answers  int
	served   bool
	calm     bool // all was well
}

func (t *tally) add(o *tally) {
	t.requests += o.requests
	t.served += o.served
	t.expired += o.expired
	t.again += o.again
	t.runs += o.runs
	t.twice += o.twice
	t.beside += o.beside
	t.switches += o.switches
	t.planned += o.planned
}

// tally counts over all seeds.
type tally struct {
	requests, served, expired, again, runs, switches, planned int
	// twice is how many ran again, most of them since their answer was under way, or lost; beside, how many
	// did while they ran already.
	twice, beside int
}

func newChecker(w *world) checker {
	return checker{w: w, owners: map[wire.Epoch]uint64{}, promises: map[promise]bool{}, highest: map[uint64]wire.Epoch{},
		gpus: map[*gpu]*order{}, runs: map[key][]*order{}, asked: map[key]*asked{}, known: map[known][]belief{}}
}

// reign: (b) no two lives use one.
func (c *checker) reign(life uint64, reign wire.Epoch, what string) {
	if owner, ok := c.owners[reign]; ok && owner != life {
		c.w.fail("reign %d is used by lives %d and %d (%s)", reign, owner, life, what)
	}
	c.owners[reign] = life
}

// promised: a backend's process says yes. (a) its promise does not fall.
func (c *checker) promised(life uint64, reign wire.Epoch) {
	if reign < c.highest[life] {
		c.w.fail("backend life %d promises reign %d after %d", life, reign, c.highest[life])
	}
	c.highest[life] = reign
	c.promises[promise{life, reign}] = true
}

// use: a scheduler begins to use a backend. It has its promise.
func (c *checker) use(s *schedulerNode, backend uint64, reign wire.Epoch) {
	if !c.promises[promise{backend, reign}] {
		c.w.fail("%s uses backend life %d in reign %d, which that has not promised", s.p.name, backend, reign)
	}
}

// sends: (f) a spare never drives.
func (c *checker) sends(s *schedulerNode, o *order) {
	if s.core.Role() != standby.Leader || s.core.Reign() != o.reign {
		c.w.fail("%s orders a batch in reign %d as %v of reign %d", s.p.name, o.reign, s.core.Role(), s.core.Reign())
	}
	if c.owners[o.reign] != s.p.life {
		c.w.fail("%s orders in reign %d, which is not its own", s.p.name, o.reign)
	}
	for i := range o.items {
		it := &o.items[i]
		for _, b := range c.known[known{s.server, it.key}] {
			if b.link.open && c.w.now < b.order.until.Add(overdue) {
				it.known = append(it.known, b.order)
			}
		}
		c.knows(s.server, it.key, o, o.link)
	}
}

// begins: (a) the GPU is free, and the order is of the reign that is promised, or was kept.
func (c *checker) begins(b *backendNode, g *gpu, o *order) {
	if c.gpus[g] != nil {
		c.w.fail("%s begins a batch of reign %d while one of reign %d runs", b.p.name, o.reign, c.gpus[g].reign)
	}
	c.gpus[g] = o
	if h := c.highest[b.p.life]; o.reign != h && !(o.kept && o.reign < h) {
		c.w.fail("%s begins a batch of reign %d, and has promised %d", b.p.name, o.reign, h)
	}
	for i := range o.items {
		it := &o.items[i]
		for _, r := range c.runs[it.key] {
			// (d) who ordered it again did not know that it runs, or that is over.
			if slices.Contains(it.known, r) {
				c.w.fail("request %v runs twice: in reign %d on life %d, and in reign %d on life %d, ordered by one that knew", it.key, r.reign, r.backend, o.reign, o.backend)
			}
			if !r.over {
				c.tally.beside++
			}
		}
		c.tally.runs++
		if len(c.runs[it.key]) > 0 {
			c.tally.twice++
		}
		c.runs[it.key] = append(c.runs[it.key], o)
	}
}

// knows: a server has ordered a request, or was told that it runs.
func (c *checker) knows(s *server, k key, o *order, link *end) {
	c.known[known{s, k}] = append(c.known[known{s, k}], belief{o, link})
}

func (c *checker) ends(g *gpu) {
	if o := c.gpus[g]; o != nil {
		o.over = true
	}
	c.gpus[g] = nil
}

// asks: a request begins.
func (c *checker) asks(k key, deadline mono.Time) {
	c.asked[k] = &asked{deadline: deadline, calm: c.calm}
	c.tally.requests++
}

// answered: (c) once, and by the deadline, or as soon after as its process goes on.
func (c *checker) answered(k key, served bool, slack mono.Dur) {
	a := c.asked[k]
	if a.answers++; a.answers > 1 {
		c.w.fail("request %v is answered %d times", k, a.answers)
	}
	if c.w.now > a.deadline.Add(slack) {
		c.w.fail("request %v is answered %v after its deadline", k, c.w.now.Sub(a.deadline))
	}
	a.served = served
	if served {
		c.tally.served++
	} else {
		c.tally.expired++
	}
}

// final: (c) all that was asked is answered. What came when all was well got its output.
func (c *checker) final() {
	if c.w.broken != "" {
		return
	}
	open := 0
	for _, a := range c.asked {
		if a.answers == 0 {
			open++
		}
		if a.calm && !a.served {
			c.w.fail("a request of after the faults, with deadline %v, got no output", a.deadline)
		}
	}
	if open > 0 {
		c.w.fail("%d requests have no answer", open)
	}
}

// settled: (e) one leads, all backends obey it, all frontends follow it.
func (c *checker) settled() string {
	w := c.w
	var leader *schedulerNode
	for _, s := range w.schedulers {
		if !s.p.alive || s.core.Role() != standby.Leader {
			continue
		}
		if leader != nil {
			return leader.p.name + " and " + s.p.name + " lead"
		}
		leader = s
	}
	if leader == nil {
		return "nobody leads"
	}
	for _, s := range w.schedulers {
		if n, ok := s.core.Leader(); s.p.alive && (!ok || n != leader.number()) {
			return s.p.name + " does not follow " + leader.p.name
		}
	}
	for _, b := range w.backends {
		if b.p.alive && (b.core.Highest() != leader.core.Reign() || b.core.Obeyed() == 0) {
			return b.p.name + " does not obey " + leader.p.name
		}
		if b.p.alive && !leader.server.uses(b.p.life) {
			return leader.p.name + " does not use " + b.p.name
		}
	}
	for _, f := range w.frontends {
		if i, _, ok := f.core.Leader(); f.p.alive && (!ok || w.schedulers[i] != leader) {
			return f.p.name + " does not follow " + leader.p.name
		}
	}
	return ""
}
