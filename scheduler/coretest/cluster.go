// Package coretest drives the scheduling cores under a virtual clock, with
// GPUs that take exactly as long as the profile says, or not: the test bench
// of goldens, properties and flat-top checks. (The simulator with networks,
// traces and baselines is a later, larger shell over the same cores.)
//
// At each instant things happen in one order: completions (AdvanceTo), the
// caller's arrivals and actions, model wake-ups and matchmaking until nothing
// moves (Settle).
package coretest

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Run is a batch on a GPU.
type Run struct {
	shard.Dispatch
	Start, End mono.Time
}

// Observer is told what happens; nil fields are not called.
type Observer struct {
	Dispatch func(now mono.Time, r Run)
	Complete func(r Run)
	Drop     func(now mono.Time, d batching.Drop)
	Grant    func(now mono.Time, g rank.Grant)
	// Candidate is called when a model's candidate changes.
	Candidate func(now mono.Time, c shard.Candidate)
}

// Cluster is cores, GPUs and a clock.
type Cluster struct {
	Now    mono.Time
	Shard  *shard.Shard
	Rank   *rank.Rank
	Obs    Observer
	Length func(r Run) mono.Dur // how long a run really takes; nil: as planned
	Models int                  // models that share the GPUs, for their targets; 0 means 1
	gpus   []gpuState
	ends   pq.Heap // GPU -> end of what runs
	out    shard.Out
	grants rank.Out
}

type gpuState struct {
	life  rank.Life
	alive bool
	runs  []Run // first one runs
}

// New makes a cluster of n GPUs without models.
func New(n int, cfg shard.Config) *Cluster {
	return newBy(rank.Config{}, n, cfg)
}

func newBy(order rank.Config, n int, cfg shard.Config) *Cluster {
	c := &Cluster{Shard: shard.New(cfg), Rank: rank.New(order)}
	for i := range n {
		c.AddGPU(wire.GPUID(i))
	}
	return c
}

// AddGPU starts a GPU, free at once.
func (c *Cluster) AddGPU(id wire.GPUID) {
	for int(id) >= len(c.gpus) {
		c.gpus = append(c.gpus, gpuState{})
	}
	c.gpus[id] = gpuState{life: c.Rank.AddGPU(id, c.Now), alive: true}
	c.setGPUs()
}

// LoseGPU kills a GPU and what runs on it.
func (c *Cluster) LoseGPU(id wire.GPUID) {
	g := &c.gpus[id]
	if !g.alive {
		return
	}
	c.Rank.RemoveGPU(id)
	c.ends.Remove(uint32(id))
	life := g.life
	*g = gpuState{}
	c.setGPUs()
	c.Shard.Lost(c.Now, id, life, &c.out)
	c.Settle()
}

// Alive reports whether the GPU lives.
func (c *Cluster) Alive(id wire.GPUID) bool { return int(id) < len(c.gpus) && c.gpus[id].alive }

func (c *Cluster) setGPUs() {
	c.Shard.SetGPUs(c.Now, c.Rank.GPUs(), batching.ShareOf(c.Rank.GPUs(), c.Models), &c.out)
	c.Settle()
}

// Submit hands in a request at Now.
func (c *Cluster) Submit(m wire.ModelID, r batching.Request) {
	c.Shard.Submit(c.Now, m, r, &c.out)
	c.apply()
}

// NextEvent is when the cluster next has something to do.
func (c *Cluster) NextEvent() mono.Time {
	next := min(c.Shard.NextWake(), c.Rank.NextWake())
	if c.ends.Len() > 0 {
		_, at := c.ends.Min()
		next = min(next, mono.Time(at))
	}
	return next
}

// AdvanceTo runs everything that is due before t, sets the clock to t and
// reports the runs that end there; Settle does the rest of that instant.
func (c *Cluster) AdvanceTo(t mono.Time) {
	for next := c.NextEvent(); next < t; next = c.NextEvent() {
		c.Now = max(c.Now, next)
		c.complete()
		c.Settle()
	}
	c.Now = max(c.Now, t)
	c.complete()
}

// Advance runs everything that is due up to and at t.
func (c *Cluster) Advance(t mono.Time) {
	c.AdvanceTo(t)
	c.Settle()
}

// SetWindow changes a model's rule for exec.
func (c *Cluster) SetWindow(m wire.ModelID, w batching.Window) {
	c.Shard.SetWindow(c.Now, m, w, &c.out)
	c.apply()
}

// Settle does what is due at Now until nothing moves.
func (c *Cluster) Settle() {
	c.apply()
	for range 1_000_000 {
		c.Shard.Wake(c.Now, &c.out)
		c.apply()
		c.grants.Grants = c.grants.Grants[:0]
		c.Rank.Step(c.Now, &c.grants)
		if len(c.grants.Grants) == 0 {
			return
		}
		for _, g := range slices.Clone(c.grants.Grants) {
			if c.Obs.Grant != nil {
				c.Obs.Grant(c.Now, g)
			}
			c.Shard.Granted(c.Now, g, &c.out)
			c.apply()
		}
	}
	panic(fmt.Sprintf("coretest: grants without end at %v", c.Now))
}

// apply carries the effects of the shard to the rank and the GPUs.
func (c *Cluster) apply() {
	for _, d := range c.out.Drops {
		if c.Obs.Drop != nil {
			c.Obs.Drop(c.Now, d)
		}
	}
	for _, d := range c.out.Dispatches {
		d.Requests = slices.Clone(d.Requests)
		c.launch(d)
	}
	for _, a := range c.out.Answers {
		c.Rank.Answer(a)
	}
	for _, k := range c.out.Candidates {
		if c.Obs.Candidate != nil {
			c.Obs.Candidate(c.Now, k)
		}
		c.Rank.SetCandidate(k.Model, k.Candidate)
	}
	c.out.Reset()
}

func (c *Cluster) launch(d shard.Dispatch) {
	g := &c.gpus[d.GPU]
	if !g.alive || g.life != d.Life {
		panic(fmt.Sprintf("coretest: batch %x for GPU %d, which is gone", d.Batch, d.GPU))
	}
	r := Run{Dispatch: d, Start: max(d.Exec, c.Now)}
	if n := len(g.runs); n > 0 {
		r.Start = max(r.Start, g.runs[n-1].End)
	}
	length := d.Until.Sub(d.Exec)
	if c.Length != nil {
		length = c.Length(r)
	}
	r.End = r.Start.Add(length)
	g.runs = append(g.runs, r)
	c.ends.Set(uint32(d.GPU), int64(g.runs[0].End))
	if c.Obs.Dispatch != nil {
		c.Obs.Dispatch(c.Now, r)
	}
}

// complete reports the runs that ended by Now.
func (c *Cluster) complete() {
	for c.ends.Len() > 0 {
		id, at := c.ends.Min()
		if at > int64(c.Now) {
			return
		}
		g := &c.gpus[id]
		r := g.runs[0]
		g.runs = g.runs[1:]
		c.ends.Remove(id)
		if len(g.runs) > 0 {
			c.ends.Set(id, int64(g.runs[0].End))
		}
		c.Shard.Completed(r.Batch)
		c.Rank.Done(r.GPU, r.Life, r.Batch, r.End)
		if c.Obs.Complete != nil {
			c.Obs.Complete(r)
		}
	}
}
