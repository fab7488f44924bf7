package acting

import (
	"math"
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a run. Zero values mean the defaults in brackets.
type Config struct {
	Group    scaling.Config
	Load     func(at mono.Time) (need, rate float64) // GPUs that deferral alone would keep busy; requests/s
	Start    int                                     // replicas at the beginning [1]
	Unit     int                                     // GPUs of each [1]
	Lead     mono.Dur                                // that a replica really takes to serve [that of the Group]
	Scatter  float64                                 // it takes up to so much more, as a share of Lead
	Drain    mono.Dur                                // that a replica takes to end what it has [1 s]
	Noise    float64                                 // of the measured need: its standard deviation, as a share
	Duration mono.Dur
	Step     mono.Dur                       // between observations [1 s]
	Week     mono.Dur                       // at the beginning: since Monday 0:00
	Events   []Event                        // in their order
	Refuses  func(at mono.Time, n int) bool // whether the scaler fails then; nil: never
	Seed     uint64
	Each     func(s *State) // is told of each step; nil: nobody is
}

// Event is something that happens to a replica.
type Event struct {
	At      mono.Time
	Ordinal int
	Dies    bool // it is there for the scaler, and serves nothing; else it serves again
}

// State is a run at an instant.
type State struct {
	At            mono.Time
	Need, Bad     float64        // GPUs; share of requests
	Rate          float64        // requests/s
	GPUs, Ordered int            // that serve; that are paid for
	Group         *scaling.Group // whose Advice may be asked for
}

// Change is one of the number of replicas.
type Change struct {
	At       mono.Time
	From, To int
}

// Result of a run.
type Result struct {
	Changes  []Change
	Repeats  int     // orders for a size that was ordered before
	GPUs     float64 // GPU seconds that were paid for
	Need     float64 // GPU seconds that were needed
	Answered float64 // requests
	Bad      float64
	Warnings []string
	Removed  int // replicas that were removed while something was left on them: must be 0
	Below    int // steps in which draining took the GPUs below the need: must be 0
	End      State
}

// run is the state of one.
type run struct {
	cfg     *Config
	rand    *rand.Rand
	group   *scaling.Group
	set     Set
	effects scaling.Effects
	result  Result
	events  []Event
}

// Run simulates cfg.
func Run(cfg Config) Result {
	cfg.Start, cfg.Unit = max(1, cfg.Start), max(1, cfg.Unit)
	for _, d := range []struct {
		v   *mono.Dur
		def mono.Dur
	}{{&cfg.Lead, cfg.Group.Lead}, {&cfg.Drain, mono.Second}, {&cfg.Step, mono.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	r := &run{cfg: &cfg, rand: rand.New(rand.NewPCG(cfg.Seed, 0x616374)), group: scaling.New(cfg.Group), events: cfg.Events}
	r.set = Set{Unit: cfg.Unit, Lead: cfg.Lead, Scatter: cfg.Scatter, Drain: cfg.Drain, Rand: r.rand}
	r.set.Start(cfg.Start)
	for at := mono.Time(0); at < mono.Time(cfg.Duration); at = at.Add(cfg.Step) {
		r.step(at)
	}
	return r.result
}

func (r *run) step(now mono.Time) {
	for len(r.events) > 0 && r.events[0].At <= now {
		r.set.Kill(r.events[0].Ordinal, r.events[0].Dies)
		r.events = r.events[1:]
	}
	need, rate := r.cfg.Load(now)
	gpus := r.set.GPUs(now)
	s := State{At: now, Need: need, Bad: bad(need, gpus), Rate: rate, GPUs: gpus, Ordered: r.set.Size() * r.cfg.Unit, Group: r.group}
	span := r.cfg.Step.Seconds()
	answered := float64(rate * span)
	o := scaling.Observation{Week: (r.cfg.Week + mono.Dur(now)) % (7 * 24 * 3600 * mono.Second), Replicas: r.set.Seen(now)}
	measured := max(0, float64(need*(1+float64(r.cfg.Noise*r.rand.NormFloat64()))))
	o.Parts = []scaling.Part{{Name: "one", GPUs: gpus, Need: measured, Busy: min(1, need/float64(max(1, gpus))), Answered: int64(answered), Bad: int64(float64(answered * s.Bad))}}
	r.group.Observe(now, &o)
	r.group.Step(now, &r.effects)
	r.carryOut(now)
	if after := r.set.GPUs(now); after < gpus && float64(after) < need {
		r.result.Below++
	}
	r.result.GPUs += float64(float64(s.Ordered) * span)
	r.result.Need += float64(need * span)
	r.result.Answered += answered
	r.result.Bad += float64(answered * s.Bad)
	r.result.End = s
	if r.cfg.Each != nil {
		r.cfg.Each(&s)
	}
}

// bad is the share of requests that a cluster with so many GPUs does not serve in time.
func bad(need float64, gpus int) float64 {
	switch {
	case need <= 0:
		return 0
	case gpus == 0:
		return 1
	}
	load := need / float64(gpus)
	return max(1-1/load, float64(0.01*math.Exp(-46*max(0, 1-load))))
}

// carryOut does what the group has decided.
func (r *run) carryOut(now mono.Time) {
	e := &r.effects
	if e.Changed {
		r.set.Leave(now, e.Leave)
	}
	r.result.Warnings = append(r.result.Warnings, e.Warnings...)
	if o := e.Scale; o != nil {
		r.scale(now, *o)
	}
	e.Reset()
}

// scale is the scaler.
func (r *run) scale(now mono.Time, o scaling.Order) {
	if o.Try > 1 {
		r.result.Repeats++
	}
	if r.cfg.Refuses != nil && r.cfg.Refuses(now, o.Size) {
		r.group.Asked(now, o, 0, "no quota")
		return
	}
	if o.Size != r.set.Size() {
		r.result.Changes = append(r.result.Changes, Change{now, r.set.Size(), o.Size})
	}
	r.result.Removed += r.set.Scale(now, o.Size)
	r.group.Asked(now, o, 0, "")
}

// Square is a load that changes between two needs, half of each period.
func Square(low, high float64, period mono.Dur, perGPU float64) func(mono.Time) (need, rate float64) {
	return func(at mono.Time) (need, rate float64) {
		need = low
		if mono.Dur(at)%period < period/2 {
			need = high
		}
		return need, float64(need * perGPU)
	}
}
