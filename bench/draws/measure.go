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

// bench simulates one mix with some seeds of arrivals, which are judged together.
type bench struct {
	mix      *Mix
	span     Span
	grid     grid
	arrivals []int // numbers of the seeds
	settled  int   // of a crossing
	tape     *workload.Tape
	stop     func() bool
}

func newBench(m *Mix, s Span, g grid, arrivals []int, stop func() bool) *bench {
	b := &bench{mix: m, span: s, grid: g, arrivals: arrivals, settled: settledFirst, tape: &workload.Tape{}, stop: stop}
	if len(arrivals) > 1 {
		b.settled = settledAgain
	}
	return b
}

// Places in a row that settle a crossing: with three a goodput varies by a tenth to a sixth
// less than with two, and costs a third more (TestCrossing).
const settledFirst, settledAgain = 2, 3

// firstArrivals are those of everything but what is measured again.
func firstArrivals() []int { return []int{0} }

// config of a run with one seed of arrivals.
func (b *bench) config(policy string, rate float64, arrivals int) (*sim.Config, error) {
	p, err := scenario.PolicyOf(policy)
	if err != nil {
		return nil, err
	}
	models, err := b.mix.models(rate)
	if err != nil {
		return nil, err
	}
	return &sim.Config{Models: models, GPUs: b.mix.GPUs, Tape: b.tape, Warmup: mono.FromMillis(1e3 * b.span.Warmup), Duration: mono.FromMillis(1e3 * b.span.Seconds),
		Frontends: max(1, p.Frontends), Seed: b.mix.Seed<<32 | uint64(b.mix.Index)<<8 | uint64(arrivals), NewPolicy: p.New}, nil
}

// grid is the rates that are tried, each above the one before by the tolerance.
type grid struct {
	base float64 // at place 0
	step float64 // a factor
}

func (k Settings) grid(base float64) grid {
	return grid{base: max(rateLeast, base), step: 1 + k.Tolerance}
}

// rateLeast is the lowest rate that is tried: in less nobody has a goodput.
const rateLeast = 1.0

func (g grid) rate(place int) float64 { return g.base * math.Pow(g.step, float64(place)) }

// place is the highest whose rate is at most that, but for rounding.
func (g grid) place(rate float64) int {
	return int(math.Floor(math.Log(rate/g.base)/math.Log(g.step) + 1e-6))
}

// Found is a policy's goodput.
type Found struct {
	Rate     float64 `json:"rate"`             // requests/s; 0: none
	Lowest   float64 `json:"lowest"`           // that failed
	Highest  float64 `json:"highest"`          // that passed
	Runs     int     `json:"runs"`             // rates that were tried
	Requests int64   `json:"requests"`         // counted, of all of them
	Worked   float64 `json:"worked"`           // seconds of a processor
	Failed   string  `json:"failed,omitempty"` // the simulation's error: a bug of the policy
}

// near is how close to the best a goodput is told in full. Rates further down
// are told roughly, but for ours and today's: what matters is who is best.
const near = 0.97

// search finds a policy's goodput. It is told exactly if it is near the best, and not at all where
// that is hopeless; best 0 has it told exactly.
func (b *bench) search(policy string, best float64) (Found, error) {
	var f Found
	c := crossing{settled: b.settled, least: b.grid.place(rateLeast), near: -beyond, try: func(place int) (bool, error) {
		var runs []*sim.Config
		for _, arrivals := range b.arrivals {
			c, err := b.config(policy, b.grid.rate(place), arrivals)
			if err != nil {
				return false, err
			}
			runs = append(runs, c)
		}
		r, pass, err := sim.Together(runs, nil, b.stop)
		f.Runs++
		f.Requests += r.All.Arrived
		return pass, err
	}}
	if best > 0 {
		c.least, c.near = max(c.least, b.grid.place(hopeless*best)), b.grid.place(near*best)
	}
	t, err := c.find()
	switch {
	case errors.Is(err, sim.ErrStopped):
		return f, err
	case err != nil:
		f.Failed = err.Error()
		return f, nil
	}
	if t.low < beyond {
		f.Lowest = b.grid.rate(t.low)
	}
	if t.place >= c.least {
		f.Rate, f.Highest = b.grid.rate(t.place), b.grid.rate(t.high)
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
	c, err := b.config(policy, o.Rate, b.arrivals[0])
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
	b, sum, guess := newBench(m, s, grid{}, firstArrivals(), stop), Found{}, max(rateLeast, 0.7*fluid)
	for _, policy := range pilots() {
		find := sim.Search{Guess: guess, Step: pilotTolerance, Tolerance: pilotTolerance, Stop: stop,
			At: func(rate float64) (*sim.Config, error) { return b.config(policy, rate, b.arrivals[0]) }}
		g, err := find.Run()
		if err != nil {
			return sum, err
		}
		sum.add(Found{Runs: g.Runs, Requests: g.Simmed})
		sum.Rate = max(sum.Rate, g.Rate)
		guess = max(rateLeast, g.Rate)
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
