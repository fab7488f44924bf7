package policytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Cluster is a scheduler, its GPUs and a clock.
type Cluster struct {
	Now     mono.Time
	Jitter  func() mono.Dur // a batch takes so much longer than planned; nil: none
	HeldMax int             // batches that a GPU may have at a time; 0: any number
	Observe Observer
	Tally

	t         testing.TB
	scheduler policy.Scheduler
	cfg       policy.Config
	models    []policy.Model
	present   []bool    // by GPU
	requests  []request // by ID, the first is 1
	open      int       // of the requests
	runs      []Run     // in the order of dispatch
	gone      []Run     // batches that did not end; news of them comes late
	out       policy.Out
	rand      *rand.Rand
}

// Observer is told what happens, before it counts; nil fields are not called.
type Observer struct {
	Drop     func(d *batching.Drop)
	Preempt  func(r *Run)
	Dispatch func(r *Run)
}

// Run is a batch and the span in which its GPU really executes it.
type Run struct {
	policy.Dispatch
	Start, End mono.Time
}

type request struct {
	batching.Request
	model wire.ModelID
	open  bool // handed in, and no way out yet
}

// NewCluster makes a cluster at instant 0. cfg is what s was made with.
func NewCluster(t testing.TB, cfg policy.Config, s policy.Scheduler, models []policy.Model, gpus int) *Cluster {
	c := &Cluster{t: t, scheduler: s, cfg: cfg, models: models, present: make([]bool, gpus), rand: rand.New(rand.NewPCG(cfg.Seed, 1))}
	for i, m := range models {
		s.AddModel(wire.ModelID(i), m)
	}
	for i := range gpus {
		c.present[i] = true
		s.AddGPU(0, wire.GPUID(i), &c.out)
	}
	c.settle()
	return c
}

// Submit hands in n requests that are due slo from Now.
func (c *Cluster) Submit(model wire.ModelID, n int, slo mono.Dur) {
	c.submit(model, n, slo, wire.ClassLatency)
}

// effortSLO is the deadline of requests of best effort, which none comes near.
const effortSLO = 3600 * mono.Second

// SubmitEffort hands in n requests of best effort.
func (c *Cluster) SubmitEffort(model wire.ModelID, n int) {
	c.submit(model, n, effortSLO, wire.ClassBestEffort)
}

func (c *Cluster) submit(model wire.ModelID, n int, slo mono.Dur, class wire.Class) {
	for range n {
		c.Submitted++
		c.open++
		r := batching.Request{ID: wire.RequestID(c.Submitted), Arrival: c.Now, Deadline: c.Now.Add(slo), Class: class}
		if c.cfg.Frontends > 1 {
			r.Frontend = wire.FrontendID(c.rand.IntN(c.cfg.Frontends))
		}
		c.requests = append(c.requests, request{r, model, true})
		c.scheduler.Submit(c.Now, model, r, &c.out)
	}
	c.settle()
}

// Lose takes a GPU away with what runs there. Those requests are open again
// before the scheduler hears of it: it may drop them in the same call.
func (c *Cluster) Lose(id wire.GPUID) {
	c.present[id] = false
	c.runs = slices.DeleteFunc(c.runs, func(r Run) bool {
		if r.GPU == id {
			c.undo(&r)
		}
		return r.GPU == id
	})
	c.scheduler.RemoveGPU(c.Now, id, &c.out)
	c.settle()
}

// Return brings a GPU back, free.
func (c *Cluster) Return(id wire.GPUID) {
	c.present[id] = true
	c.scheduler.AddGPU(c.Now, id, &c.out)
	c.settle()
}

// undo opens the requests of a batch that will not end. News of its end will
// come all the same, as over a slow link, and be about nothing.
func (c *Cluster) undo(r *Run) {
	for i := range r.Requests {
		c.requests[r.Requests[i].ID-1].open = true
	}
	c.open += len(r.Requests)
	c.gone = append(c.gone, *r)
}

// Advance runs all that is due up to an instant.
func (c *Cluster) Advance(to mono.Time) {
	for {
		next := c.scheduler.NextWake()
		for i := range c.runs {
			next = min(next, c.runs[i].End)
		}
		if next > to {
			break
		}
		c.Now = max(c.Now, next)
		c.complete()
		c.settle()
	}
	c.Now = max(c.Now, to)
}

// Drain lets what is there come to its end: nothing may be left, and nothing
// be due any more.
func (c *Cluster) Drain() {
	c.Advance(c.Now.Add(10 * mono.Second))
	if c.open != 0 || len(c.runs) != 0 || c.scheduler.NextWake() != mono.Never {
		c.failf("in the end %d requests are open, %d batches run and Step is due at %v", c.open, len(c.runs), c.scheduler.NextWake())
	}
}

// Open is how many requests have not left yet.
func (c *Cluster) Open() int { return c.open }

// complete reports the batches that have ended.
func (c *Cluster) complete() {
	for i := 0; i < len(c.runs); {
		r := c.runs[i]
		if r.End > c.Now {
			i++
			continue
		}
		c.runs = slices.Delete(c.runs, i, i+1)
		c.ended(&r)
		c.scheduler.Done(c.Now, r.Batch, r.End, &c.out)
	}
	c.gone = slices.DeleteFunc(c.gone, func(r Run) bool {
		if r.End <= c.Now {
			c.scheduler.Done(c.Now, r.Batch, r.End, &c.out)
		}
		return r.End <= c.Now
	})
}

// settle steps the scheduler. Once must do: rule 2.
func (c *Cluster) settle() {
	c.apply()
	if c.scheduler.NextWake() <= c.Now {
		c.scheduler.Step(c.Now, &c.out)
		c.apply()
	}
	if wake := c.scheduler.NextWake(); wake <= c.Now {
		c.failf("after Step NextWake is %v", wake)
	}
}

// apply takes preemptions first: what was preempted may be dropped in the same
// Out, and its GPU may have been given to another batch.
func (c *Cluster) apply() {
	for i := range c.out.Preempts {
		c.preempt(&c.out.Preempts[i])
	}
	for i := range c.out.Drops {
		c.drop(&c.out.Drops[i])
	}
	for i := range c.out.Dispatches {
		c.launch(c.out.Dispatches[i])
	}
	c.out.Reset()
}

func (c *Cluster) preempt(p *policy.Preempt) {
	i := slices.IndexFunc(c.runs, func(r Run) bool { return r.Batch == p.Batch && r.GPU == p.GPU })
	if i < 0 {
		c.failf("preempts batch %x on GPU %d, which does not run there", p.Batch, p.GPU)
	}
	r := c.runs[i]
	if f := c.Observe.Preempt; f != nil {
		f(&r)
	}
	c.preempted(&r)
	c.undo(&r)
	c.runs = slices.Delete(c.runs, i, i+1)
}

func (c *Cluster) drop(d *batching.Drop) {
	c.leave(&d.Request)
	if f := c.Observe.Drop; f != nil {
		f(d)
	}
	c.dropped(d)
}

// launch puts a batch on its GPU, behind what is there.
func (c *Cluster) launch(d policy.Dispatch) {
	d.Requests = slices.Clone(d.Requests)
	c.check(&d)
	r := Run{Dispatch: d, Start: d.Exec}
	for i := range c.runs {
		if c.runs[i].GPU == d.GPU {
			r.Start = max(r.Start, c.runs[i].End)
		}
	}
	r.End = r.Start.Add(d.Until.Sub(d.Exec))
	if c.Jitter != nil {
		r.End = max(r.Start, r.End.Add(c.Jitter()))
	}
	if f := c.Observe.Dispatch; f != nil {
		f(&r)
	}
	c.dispatched(&r)
	c.runs = append(c.runs, r)
}

// failf ends the test, with what it takes to repeat it.
func (c *Cluster) failf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d, at %v: %s", c.cfg.Seed, c.Now, fmt.Sprintf(format, args...))
}
