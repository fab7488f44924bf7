package policytest

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// leave closes a request: rule 1.
func (c *Cluster) leave(r *batching.Request) {
	if r.ID < 1 || int(r.ID) > len(c.requests) {
		c.failf("request %d leaves and was never handed in", r.ID)
	}
	k := &c.requests[r.ID-1]
	if !k.open {
		c.failf("request %d leaves twice", r.ID)
	}
	if *r != k.Request {
		c.failf("request %+v was handed in as %+v", *r, k.Request)
	}
	k.open = false
	c.open--
}

// check holds a batch against rule 4, and takes its requests out by rule 1.
func (c *Cluster) check(d *policy.Dispatch) {
	b := len(d.Requests)
	if b == 0 || int(d.GPU) >= len(c.present) || !c.present[d.GPU] {
		c.failf("a batch of %d for GPU %d, present: %v", b, d.GPU, c.present)
	}
	if want := c.models[d.Model].Profile.Latency(b); d.Until.Sub(d.Exec) != want {
		c.failf("a batch of %d is planned for %v, want %v", b, d.Until.Sub(d.Exec), want)
	}
	if earliest := c.Now.Add(c.cfg.Delay.Of(b)); d.Exec < earliest {
		c.failf("a batch of %d is to start at %v, its order comes by %v", b, d.Exec, earliest)
	}
	held, until := c.Held(d.GPU)
	if d.Exec < until {
		c.failf("GPU %d is to start a batch at %v and has work until %v", d.GPU, d.Exec, until)
	}
	if c.HeldMax > 0 && held >= c.HeldMax {
		c.failf("GPU %d gets a batch and has %d, at most %d", d.GPU, held, c.HeldMax)
	}
	for i := range d.Requests {
		r := &d.Requests[i]
		c.leave(r)
		if m := c.requests[r.ID-1].model; m != d.Model {
			c.failf("request %d of model %d is in a batch of model %d", r.ID, m, d.Model)
		}
		if d.Until > r.Deadline {
			c.failf("request %d is due at %v, its batch is planned to end at %v", r.ID, r.Deadline, d.Until)
		}
	}
}

// Held is how many batches a GPU has, and when the last is planned to end.
func (c *Cluster) Held(id wire.GPUID) (n int, until mono.Time) {
	until = mono.Past
	for i := range c.runs {
		if c.runs[i].GPU == id {
			n++
			until = max(until, c.runs[i].Until)
		}
	}
	return n, until
}
