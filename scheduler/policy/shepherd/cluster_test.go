package shepherd

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cluster drives a Scheduler under a virtual clock and checks the rules: each
// request leaves once, each batch is sent to a GPU that runs none, starts when
// its order has come, and is planned to end by its first deadline. (policytest.Story
// tells a story; this one jitters, loses GPUs and counts.)
type cluster struct {
	t         *testing.T
	s         *Scheduler
	jitter    func() mono.Dur // a batch takes so much more than planned; nil: none
	now       mono.Time
	out       policy.Out
	runs      []execution
	open      map[wire.RequestID]bool // handed in, and not gone
	serial    wire.RequestID
	sizes     []int // of the batches that ended
	served    int
	preempted int // batches
	late      int // served after their deadline
}

type execution struct {
	policy.Dispatch
	end mono.Time
}

func newCluster(t *testing.T, s *Scheduler, models []policy.Model, gpus int) *cluster {
	c := &cluster{t: t, s: s, open: map[wire.RequestID]bool{}}
	for i, m := range models {
		s.AddModel(wire.ModelID(i), m)
	}
	for i := range gpus {
		s.AddGPU(0, wire.GPUID(i), &c.out)
	}
	c.settle()
	return c
}

func (c *cluster) submit(at mono.Time, model wire.ModelID, n int, slo mono.Dur) {
	c.advance(at)
	for range n {
		c.serial++
		c.open[c.serial] = true
		c.s.Submit(c.now, model, batching.Request{ID: c.serial, Arrival: c.now, Deadline: c.now.Add(slo)}, &c.out)
	}
	c.settle()
}

// lose takes a GPU and what runs there away, and brings it back.
func (c *cluster) lose(id wire.GPUID) {
	c.runs = slices.DeleteFunc(c.runs, func(r execution) bool {
		if r.GPU == id {
			c.reopen(r.Requests)
		}
		return r.GPU == id
	})
	c.s.RemoveGPU(c.now, id, &c.out)
	c.settle()
	c.s.AddGPU(c.now, id, &c.out)
	c.settle()
}

func (c *cluster) advance(to mono.Time) {
	for {
		next := c.s.NextWake()
		for i := range c.runs {
			next = min(next, c.runs[i].end)
		}
		if next > to {
			break
		}
		c.now = max(c.now, next)
		for i := len(c.runs) - 1; i >= 0; i-- {
			if r := c.runs[i]; r.end <= c.now {
				c.runs = slices.Delete(c.runs, i, i+1)
				c.finish(r)
			}
		}
		c.settle()
	}
	c.now = max(c.now, to)
}

func (c *cluster) finish(r execution) {
	c.s.Done(c.now, r.Batch, r.end, &c.out)
	c.served += len(r.Requests)
	c.sizes = append(c.sizes, len(r.Requests))
	for _, q := range r.Requests {
		if r.end > q.Deadline {
			c.late++
		}
	}
}

func (c *cluster) settle() {
	c.apply()
	if c.s.NextWake() <= c.now {
		c.s.Step(c.now, &c.out)
		c.apply()
	}
	if wake := c.s.NextWake(); wake <= c.now {
		c.t.Fatalf("after Step at %v: NextWake is %v", c.now, wake)
	}
}

func (c *cluster) apply() {
	for _, d := range c.out.Drops {
		c.leave(d.Request.ID)
	}
	for _, p := range c.out.Preempts {
		c.preempt(p)
	}
	for _, d := range c.out.Dispatches {
		c.launch(d)
	}
	c.out.Reset()
}

func (c *cluster) preempt(p policy.Preempt) {
	i := slices.IndexFunc(c.runs, func(r execution) bool { return r.Batch == p.Batch && r.GPU == p.GPU })
	if i < 0 {
		c.t.Fatalf("at %v: preempts batch %x on GPU %d, which does not run there", c.now, p.Batch, p.GPU)
	}
	c.preempted++
	c.reopen(c.runs[i].Requests)
	c.runs = slices.Delete(c.runs, i, i+1)
}

func (c *cluster) launch(d policy.Dispatch) {
	d.Requests = slices.Clone(d.Requests)
	if earliest := c.now.Add(c.s.cfg.Delay.Of(len(d.Requests))); d.Exec < earliest {
		c.t.Fatalf("at %v: a batch starts at %v, before its order has come at %v", c.now, d.Exec, earliest)
	}
	for _, r := range c.runs {
		if r.GPU == d.GPU {
			c.t.Fatalf("at %v: GPU %d gets a batch while one runs there", c.now, d.GPU)
		}
	}
	for _, r := range d.Requests {
		c.leave(r.ID)
		if d.Until > r.Deadline {
			c.t.Fatalf("at %v: a batch is to end at %v, after the deadline %v", c.now, d.Until, r.Deadline)
		}
	}
	end := d.Until
	if c.jitter != nil {
		end = end.Add(c.jitter())
	}
	c.runs = append(c.runs, execution{d, end})
}

func (c *cluster) leave(id wire.RequestID) {
	if !c.open[id] {
		c.t.Fatalf("at %v: request %d leaves twice", c.now, id)
	}
	delete(c.open, id)
}

func (c *cluster) reopen(requests []batching.Request) {
	for _, r := range requests {
		c.open[r.ID] = true
	}
}
