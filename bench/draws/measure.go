package draws

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Settings are how long the simulations are.
type Settings struct {
	Seconds   float64 // counted, of most mixes
	Requests  float64 // counted, of all models: where more would come the span is shorter
	Tolerance float64 // of a goodput
}

// Defaults are those of a report.
func Defaults() Settings { return Settings{Seconds: 60, Requests: 300_000, Tolerance: 0.005} }

// Span is what the simulations of a mix take.
type Span struct {
	Seconds float64 `json:"seconds"` // counted
	Warmup  float64 `json:"warmup"`  // before them
}

// Of a span of 60 s; others in proportion.
const (
	rareRequests = 1000  // of the rarest model, if the longest span has them
	longest      = 600.0 // seconds
	shortest     = 20.0  // seconds, however many there are
	warmup       = 20.0  // seconds at least before
)

// span of a mix that carries about rate. It is Seconds long; longer where the
// rarest model would have fewer than 1,000 requests, for the p99 of fifty is
// chance, and of bursty arrivals more, by one over the root of their shape, for
// those of a burst have one fate; shorter where requests are many. A third as
// long, and at least 20 s, is not counted before.
func (k Settings) span(m *Mix, rate float64) (Span, error) {
	enough, err := m.enough(rate)
	if err != nil {
		return Span{}, err
	}
	unit := k.Seconds / Defaults().Seconds
	rate = max(rate, 1e-3)
	seconds := min(max(k.Seconds, unit*enough), unit*longest)
	seconds = math.Ceil(min(seconds, max(k.Requests/rate, unit*shortest)))
	if m.Change != "" {
		seconds = changePeriod * math.Ceil(seconds/changePeriod)
	}
	return Span{Seconds: seconds, Warmup: math.Ceil(max(seconds/3, unit*warmup))}, nil
}

// enough is how many seconds the rarest model takes for rareRequests, at a rate of all models.
func (m *Mix) enough(rate float64) (seconds float64, err error) {
	stream, err := m.process()
	if err != nil {
		return 0, err
	}
	requests := float64(rareRequests)
	if stream.Process == workload.Gamma && stream.Shape < 1 {
		requests /= math.Sqrt(stream.Shape)
	}
	rarest := math.Inf(1)
	for i := range m.Models {
		rarest = min(rarest, m.Models[i].Share)
	}
	return requests / (rarest * max(rate, 1e-3)), nil
}

// longer is n times the span.
func (s Span) longer(n float64) Span { return Span{n * s.Seconds, n * s.Warmup} }

// bench simulates one mix with one seed of arrivals.
type bench struct {
	mix  *Mix
	span Span
	seed uint64 // of the arrivals
	tape *workload.Tape
	stop func() bool
}

func newBench(m *Mix, s Span, arrivals int, stop func() bool) *bench {
	return &bench{mix: m, span: s, seed: m.Seed<<32 | uint64(m.Index)<<8 | uint64(arrivals), tape: &workload.Tape{}, stop: stop}
}

// config of a run.
func (b *bench) config(policy string, rate float64) (*sim.Config, error) {
	p, err := scenario.PolicyOf(policy)
	if err != nil {
		return nil, err
	}
	models, err := b.mix.models(rate)
	if err != nil {
		return nil, err
	}
	return &sim.Config{Models: models, GPUs: b.mix.GPUs, Tape: b.tape, Warmup: mono.FromMillis(1e3 * b.span.Warmup), Duration: mono.FromMillis(1e3 * b.span.Seconds),
		Frontends: max(1, p.Frontends), Seed: b.seed, NewPolicy: p.New}, nil
}

// Found is a policy's goodput.
type Found struct {
	Rate     float64 `json:"rate"`             // requests/s, the highest that passed
	TooHigh  float64 `json:"too_high"`         // the lowest that failed
	Guess    float64 `json:"guess"`            // where the search began; of two, the higher one
	Runs     int     `json:"runs"`             // simulations
	Requests int64   `json:"requests"`         // counted, of all of them
	Worked   float64 `json:"worked"`           // seconds of a processor
	Failed   string  `json:"failed,omitempty"` // the simulation's error: a bug of the policy
}

// near is how close to the best a goodput is told in full. Rates further down
// are told roughly, but for ours and today's: what matters is who is best.
const near, coarse = 0.97, 0.1

// Steps of a search: most policies are within some percent of the best, or far
// below; the first one has a pilot's word only.
const stepKnown, stepUnknown = 0.04, 0.1

// search finds a policy's goodput. It begins at the best one that is known, or
// at a guess while best is 0; rates below the floor are not tried.
func (b *bench) search(policy string, guess, best, floor, tolerance float64) (Found, error) {
	find := sim.Search{Guess: max(1.01, guess), Step: stepUnknown, Tolerance: tolerance, Floor: floor, Stop: b.stop,
		At: func(rate float64) (*sim.Config, error) { return b.config(policy, rate) }}
	if best > 0 {
		find.Guess, find.Step = max(1.01, best), stepKnown
		if policy != Ours && policy != Today {
			find.Close, find.Coarse = near*best, coarse
		}
	}
	g, err := find.Run()
	f := Found{Rate: g.Rate, TooHigh: g.TooHigh, Guess: find.Guess, Runs: g.Runs, Requests: g.Simmed}
	switch {
	case errors.Is(err, sim.ErrStopped):
		return f, err
	case err != nil:
		f.Rate, f.TooHigh, f.Failed = 0, find.Guess, err.Error()
	}
	return f, nil
}

// Over is what a policy serves above the peak.
type Over struct {
	Rate   float64 `json:"rate"`   // offered
	Served float64 `json:"served"` // as a part of the peak, which is Rate/overload
	Worked float64 `json:"worked"`
	Failed string  `json:"failed,omitempty"`
}

// overload is how much above the peak.
const overload = 1.5

// over offers 1.5 times the peak. The rate may change: what came counts.
func (b *bench) over(policy string, peak float64) (Over, error) {
	o := Over{Rate: overload * peak}
	c, err := b.config(policy, o.Rate)
	if err != nil {
		return o, err
	}
	r, err := sim.Run(c, b.stop)
	switch {
	case errors.Is(err, sim.ErrStopped):
		return o, err
	case err != nil:
		o.Failed = err.Error()
	default:
		o.Served = overload * r.Served() / r.Offered()
	}
	return o, nil
}

// pilots find about what a mix carries.
func pilots() []string { return []string{"eager/target", "timeout/target:0.2"} }

// pilotTolerance is of a pilot's search.
const pilotTolerance = 0.1

// pilotSpan is short; a rate that changes does so within it.
func (k Settings) pilotSpan(m *Mix) Span {
	s := Span{Seconds: k.Seconds / 6, Warmup: k.Seconds / 20}
	if m.Change != "" {
		s.Seconds = changePeriod
	}
	return s
}

// pilot is about what the mix carries.
func pilot(m *Mix, s Span, stop func() bool) (Found, error) {
	fluid, err := m.fluid()
	if err != nil {
		return Found{}, err
	}
	b, sum, guess := newBench(m, s, 0, stop), Found{}, 0.7*fluid
	for _, policy := range pilots() {
		f, err := b.search(policy, guess, 0, 0, pilotTolerance)
		if err != nil {
			return sum, err
		}
		sum.add(f)
		sum.Rate, guess = max(sum.Rate, f.Rate), max(1, f.Rate)
	}
	return sum, nil
}

// checkPolicies refuses what scenario does not know.
func checkPolicies(names []string) error {
	for i, name := range names {
		if _, err := scenario.PolicyOf(name); err != nil {
			return fmt.Errorf("--policies: %w", err)
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("--policies: %s is there twice", name)
		}
	}
	return nil
}
