package soak

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Kind is a kind of fault.
type Kind string

// The kinds. A killed part is killed with SIGKILL and started again.
const (
	BackendKill   Kind = "backend_kill"
	BackendStop   Kind = "backend_stop" // SIGSTOP, then SIGCONT
	FrontendKill  Kind = "frontend_kill"
	SchedulerKill Kind = "scheduler_kill"
	LinkDelay     Kind = "link_delay"
	LinkStall     Kind = "link_stall" // bytes wait, the connection stays
	LinkCut       Kind = "link_cut"   // connections end, new ones are refused
	Garbage       Kind = "garbage"
	SlowLoris     Kind = "slow_loris"
	Flood         Kind = "connection_flood" // connections opened and dropped
)

// Kinds are all of them.
func Kinds() []Kind {
	return []Kind{BackendKill, BackendStop, FrontendKill, SchedulerKill, LinkDelay, LinkStall, LinkCut, Garbage, SlowLoris, Flood}
}

// Fault is one line of the plan.
type Fault struct {
	At     mono.Dur `json:"at_ns"` // from the end of the warm-up; later, if the one before is not over
	Kind   Kind     `json:"kind"`
	Target int      `json:"target"`             // which backend, frontend or link
	Hold   mono.Dur `json:"hold_ns,omitempty"`  // how long it lasts
	Delay  mono.Dur `json:"delay_ns,omitempty"` // of a delayed link
	Seed   uint64   `json:"seed"`               // of what is random in it
}

// PlanConfig is what a plan depends on.
type PlanConfig struct {
	Seed                       uint64
	Duration                   mono.Dur
	Every                      mono.Dur // mean span from fault to fault
	Kinds                      []Kind
	Backends, Frontends, Links int
}

// Plan draws the faults of a run. Kinds come like cards of a deck that is shuffled
// again when it is used up: a short run has many kinds, a long one all of them
// equally often.
func Plan(c PlanConfig) []Fault {
	r := rand.New(rand.NewPCG(c.Seed, 0x736f616b))
	var out []Fault
	var deck []Kind
	// The last fault must have time to be recovered from.
	for at := c.gap(r); at < c.Duration-c.Every/2; at += c.gap(r) {
		if len(deck) == 0 {
			deck = append(deck, c.Kinds...)
			r.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
		}
		f := Fault{At: at, Kind: deck[0], Seed: r.Uint64()}
		deck = deck[1:]
		c.fill(&f, r)
		out = append(out, f)
	}
	return out
}

// gap is 0.6 to 1.4 times the mean.
func (c PlanConfig) gap(r *rand.Rand) mono.Dur { return between(r, c.Every*6/10, c.Every*14/10) }

func (c PlanConfig) fill(f *Fault, r *rand.Rand) {
	const ms = mono.Millisecond
	switch f.Kind {
	case BackendKill:
		f.Target, f.Hold = r.IntN(c.Backends), between(r, 200*ms, 1500*ms)
	case BackendStop: // around the second after which a silent link is dead
		f.Target, f.Hold = r.IntN(c.Backends), between(r, 500*ms, 2000*ms)
	case FrontendKill:
		f.Target, f.Hold = r.IntN(c.Frontends), between(r, 100*ms, 1000*ms)
	case SchedulerKill:
		f.Hold = between(r, 100*ms, 1500*ms)
	case LinkDelay:
		f.Target, f.Hold, f.Delay = r.IntN(c.Links), between(r, 1000*ms, 3000*ms), between(r, 1*ms, 10*ms)
	case LinkStall, LinkCut:
		f.Target, f.Hold = r.IntN(c.Links), between(r, 200*ms, 1500*ms)
	case Garbage, Flood:
	case SlowLoris:
		f.Target, f.Hold = r.IntN(c.Frontends), between(r, 1000*ms, 3000*ms)
	}
}

func between(r *rand.Rand, low, high mono.Dur) mono.Dur {
	return low + mono.Dur(r.Int64N(max(1, int64(high-low))))
}
