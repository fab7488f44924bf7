package policytest

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// WalkConfig says what walks, and what it promises beyond the rules.
type WalkConfig struct {
	Seed    uint64 // all else is drawn from it
	New     func(policy.Config) policy.Scheduler
	Exact   bool     // batches take as long as planned: nothing may be late
	HeldMax int      // batches that a GPU may have at a time; 0: any number
	Effort  bool     // there is best effort, too
	Settle  mono.Dur // at the end, before nothing may be left
	// Check looks at each batch before it counts; nil: nothing more to check.
	Check func(c *Cluster, r *Run)
}

const (
	walkMillis = 2000.0 // of arrivals
	rushFrom   = 1000.0 // ten times as many arrivals
	rushTo     = 1100.0
	awayFrom   = 1500.0 // no GPU is there
	awayTo     = 1560.0
	walkServed = 150  // at least, even on one GPU that is lost again and again
	walkStall  = 20.0 // longest time by which a batch is late
)

// walk is one walk: who draws, and what was drawn once.
type walk struct {
	*rand.Rand
	cfg    policy.Config
	models []policy.Model
	gpus   int
	pace   int // milliseconds from one arrival to the next, in the mean
}

// Walk drives a scheduler at random for two seconds: 1 to 5 models, 1 to 6
// GPUs, 1 to 3 requests each 1 to 9 ms, with a rush; GPUs are lost and return,
// all of them at one time, and batches stall unless the walk is Exact. It walks
// twice, since the same calls must have the same effects (rule 3), and returns
// the second walk's counts.
func Walk(t *testing.T, k WalkConfig) Tally {
	t.Helper()
	first, second := k.walk(t), k.walk(t)
	if first.digest != second.digest {
		t.Fatalf("seed %d: the same calls had other effects: %v, then %v", k.Seed, &first, &second)
	}
	if second.Served < walkServed || second.Dropped[wire.ReasonUnavailable] == 0 {
		t.Fatalf("seed %d: a walk that shows too little: %v", k.Seed, &second)
	}
	if k.Exact && second.Late > 0 {
		t.Fatalf("seed %d: %v", k.Seed, &second)
	}
	return second
}

func (k *WalkConfig) walk(t *testing.T) Tally {
	t.Helper()
	w := draw(t, k.Seed)
	c := NewCluster(t, w.cfg, k.New(w.cfg), w.models, w.gpus)
	c.HeldMax = k.HeldMax
	if !k.Exact {
		c.Jitter = w.jitter
	}
	if k.Check != nil {
		c.Observe.Dispatch = func(r *Run) { k.Check(c, r) }
	}
	gone := false
	for at := w.gap(0); at < walkMillis; at += w.gap(at) {
		c.Advance(mono.Time(mono.FromMillis(at)))
		if away := at >= awayFrom && at < awayTo; away || gone {
			w.all(c, !away)
			gone = away
		} else {
			w.trouble(c)
		}
		m := w.IntN(len(w.models))
		slo := w.models[m].SLO
		if w.IntN(4) == 0 { // other deadlines than most
			slo = mono.FromMillis(5 + 40*w.Float64())
		}
		c.Submit(wire.ModelID(m), 1+w.IntN(3), slo)
		if k.Effort && w.IntN(3) == 0 {
			c.SubmitEffort(wire.ModelID(w.IntN(len(w.models))), 1+w.IntN(6))
		}
	}
	w.all(c, true)
	c.Advance(c.Now.Add(k.Settle))
	c.Drain()
	return c.Tally
}

func draw(t *testing.T, seed uint64) *walk {
	t.Helper()
	w := &walk{Rand: rand.New(rand.NewPCG(seed, 1))}
	w.cfg = policy.Config{RequestsMax: 200, Frontends: 1 + 7*w.IntN(2), Seed: seed,
		Delay: batching.Delay{Ctrl: mono.Dur(w.IntN(300)) * mono.Microsecond, Data: mono.Dur(w.IntN(20)) * mono.Microsecond}}
	for range 1 + w.IntN(5) {
		w.models = append(w.models, policy.Model{Profile: Linear(t, 0.2+2*w.Float64(), 6*w.Float64(), 1+w.IntN(40)),
			SLO: mono.FromMillis(10 + 35*w.Float64()), Rate: float64(w.IntN(3)) * 500})
	}
	w.gpus, w.pace = 1+w.IntN(6), 1+4*w.IntN(3)
	return w
}

// gap is the time until the next arrival, in milliseconds.
func (w *walk) gap(at float64) float64 {
	if at > rushFrom && at < rushTo {
		return w.ExpFloat64() / 10
	}
	return w.ExpFloat64() * float64(w.pace)
}

// jitter is some 0.1 ms either way, and one batch in fifty stalls.
func (w *walk) jitter() mono.Dur {
	if w.IntN(50) == 0 {
		return mono.FromMillis(walkStall * w.Float64())
	}
	return mono.FromMillis(w.NormFloat64() / 10)
}

// trouble loses a GPU at times, for this instant or longer.
func (w *walk) trouble(c *Cluster) {
	id := wire.GPUID(w.IntN(w.gpus))
	switch {
	case !c.present[id] && w.IntN(20/w.pace) == 0:
		c.Return(id)
	case c.present[id] && w.IntN(200/w.pace) == 0:
		c.Lose(id)
		if w.IntN(2) == 0 {
			c.Return(id)
		}
	}
}

// all brings every GPU back, or takes it away.
func (w *walk) all(c *Cluster, present bool) {
	for i, is := range c.present {
		switch {
		case present && !is:
			c.Return(wire.GPUID(i))
		case !present && is:
			c.Lose(wire.GPUID(i))
		}
	}
}
