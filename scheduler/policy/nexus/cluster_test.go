package nexus

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// linear is a model from the tables of the paper.
func linear(t testing.TB, alpha, beta, slo float64, rate float64) policy.Model {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), 256)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Model{Profile: p, SLO: mono.FromMillis(slo), Rate: rate}
}

// cluster drives a Scheduler with Poisson arrivals and GPUs that take as long
// as planned, and checks what must hold of each batch and each request.
type cluster struct {
	t         testing.TB
	s         *Scheduler
	models    []policy.Model
	now       mono.Time
	out       policy.Out
	runs      []run // by GPU: end to end, in the order of dispatch
	open      map[wire.RequestID]bool
	submitted int
	served    int
	dropped   map[wire.Reason]int
	batches   []int // batches[b] ran with b requests
	rand      *rand.Rand
}

type run struct {
	policy.Dispatch // without its requests
	end             mono.Time
	ids             []wire.RequestID
}

func newCluster(t testing.TB, cfg policy.Config, opts Options, models []policy.Model, gpus int) *cluster {
	c := &cluster{t: t, s: New(cfg, opts), models: models, open: map[wire.RequestID]bool{},
		dropped: map[wire.Reason]int{}, batches: make([]int, 257), rand: rand.New(rand.NewPCG(cfg.Seed, 1))}
	for i, m := range models {
		c.s.AddModel(wire.ModelID(i), m)
	}
	for i := range gpus {
		c.s.AddGPU(0, wire.GPUID(i), &c.out)
	}
	return c
}

// poisson runs the cluster for a span with that many arrivals a second of each
// model.
func (c *cluster) poisson(span mono.Dur, rates ...float64) {
	end := c.now.Add(span)
	next := make([]mono.Time, len(rates))
	for m := range rates {
		next[m] = c.now
		c.gap(&next[m], rates[m])
	}
	for {
		m := 0
		for i := range next {
			if next[i] < next[m] {
				m = i
			}
		}
		if next[m] > end {
			break
		}
		c.advance(next[m])
		c.submit(wire.ModelID(m), wire.FrontendID(c.rand.IntN(len(c.s.frontends))))
		c.gap(&next[m], rates[m])
	}
	c.advance(end)
}

func (c *cluster) gap(at *mono.Time, rate float64) {
	if rate == 0 {
		*at = mono.Never
		return
	}
	*at = at.Add(mono.FromSeconds(c.rand.ExpFloat64() / rate))
}

func (c *cluster) submit(m wire.ModelID, f wire.FrontendID) {
	c.submitted++
	id := wire.RequestID(c.submitted)
	c.open[id] = true
	c.s.Submit(c.now, m, batching.Request{ID: id, Frontend: f, Arrival: c.now, Deadline: c.now.Add(c.models[m].SLO)}, &c.out)
	c.settle()
}

// advance runs all that is due up to an instant.
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
		for i := 0; i < len(c.runs); {
			r := c.runs[i]
			if r.end > c.now {
				i++
				continue
			}
			c.runs = append(c.runs[:i], c.runs[i+1:]...)
			c.s.Done(c.now, r.Batch, r.end, &c.out)
		}
		c.settle()
	}
	c.now = max(c.now, to)
}

func (c *cluster) settle() {
	c.apply()
	if c.s.NextWake() <= c.now {
		c.s.Step(c.now, &c.out)
	}
	if c.s.NextWake() <= c.now {
		c.t.Fatalf("at %v: due at %v after Step", c.now, c.s.NextWake())
	}
	c.apply()
}

func (c *cluster) apply() {
	for _, d := range c.out.Drops {
		c.leave(d.Request.ID)
		c.dropped[d.Reason]++
	}
	for _, d := range c.out.Dispatches {
		c.launch(d)
	}
	c.out.Reset()
}

// launch checks a batch: planned after the GPU's last one, as long as the
// profile says, not ordered too late to arrive, over by its first deadline.
func (c *cluster) launch(d policy.Dispatch) {
	b := len(d.Requests)
	if want := c.models[d.Model].Profile.Latency(b); d.Until.Sub(d.Exec) != want {
		c.t.Fatalf("batch of %d is planned for %v, want %v", b, d.Until.Sub(d.Exec), want)
	}
	if d.Exec < c.now.Add(c.s.cfg.Delay.Of(b)) {
		c.t.Fatalf("at %v: a batch of %d is to start at %v, before it can arrive", c.now, b, d.Exec)
	}
	for i := range c.runs {
		if c.runs[i].GPU == d.GPU && c.runs[i].Until > d.Exec {
			c.t.Fatalf("at %v: two batches on GPU %d", c.now, d.GPU)
		}
	}
	ids := make([]wire.RequestID, 0, b)
	for _, r := range d.Requests {
		c.leave(r.ID)
		ids = append(ids, r.ID)
		if d.Until > r.Deadline {
			c.t.Fatalf("at %v: request %d is due at %v, its batch ends at %v", c.now, r.ID, r.Deadline, d.Until)
		}
	}
	c.served += b
	c.batches[b]++
	d.Requests = nil
	c.runs = append(c.runs, run{d, d.Until, ids})
}

func (c *cluster) leave(id wire.RequestID) {
	if !c.open[id] {
		c.t.Fatalf("at %v: request %d leaves twice", c.now, id)
	}
	delete(c.open, id)
}

// bad is the share of requests that were not served.
func (c *cluster) bad() float64 { return 1 - float64(c.served)/float64(c.submitted) }

func (c *cluster) String() string {
	return fmt.Sprintf("%d submitted, %d served, %v dropped", c.submitted, c.served, c.dropped)
}
