package scenario

import (
	"errors"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Plan is a scenario that has been checked.
type Plan struct {
	// Scenario with its defaults filled in and its texts in their one form: equal
	// scenarios are equal JSON.
	Scenario Scenario

	models  []sim.Model // without their streams
	shares  []float64   // of the models, of all requests
	stream  workload.Stream
	trace   *trace // nil: arrivals are drawn
	network sim.Network
	events  []sim.GPUEvent
	pauses  []sim.Pause
	policy  Policy
	groups  []int // model -> the first model that is like it

	// Events is told what happens in a run, as a live scheduler tells it; nil: nobody is.
	Events func(*watch.Event)
}

// Plan checks the scenario. The rate may be 0 where a search will find it.
func (s Scenario) Plan() (*Plan, error) {
	s.fill()
	if err := s.checkNumbers(); err != nil {
		return nil, err
	}
	p := &Plan{}
	var err error
	if p.network, err = parseNetwork(s.Network, s.Bound); err != nil {
		return nil, err
	}
	s.Bound = delayText(p.network.Bound)
	if p.models, err = simModels(s.Models, &p.network); err != nil {
		return nil, err
	}
	if p.policy, err = PolicyOf(s.Policy); err != nil {
		return nil, err
	}
	if n := p.policy.Frontends; n > 0 && s.Frontends > 0 && s.Frontends != n {
		return nil, refuse("frontends", "%d, but --policy %s has %d: leave one of them out", s.Frontends, s.Policy, n)
	}
	s.Frontends = max(1, s.Frontends, p.policy.Frontends)
	if p.events, err = parseEvents(s.Events, s.GPUs, mono.Time(s.Warmup+s.Duration)); err != nil {
		return nil, err
	}
	if p.pauses, err = parsePauses(s.Pauses); err != nil {
		return nil, err
	}
	if err := s.checkMargin(); err != nil {
		return nil, err
	}
	if err := p.arrivals(&s); err != nil {
		return nil, err
	}
	p.groups = alike(s.Models, p.shares)
	p.Scenario = s
	return p, nil
}

// fill puts the defaults where nothing was said.
func (s *Scenario) fill() {
	for _, f := range []struct {
		text    *string
		trace   string // what stands there with a trace
		drawing string // and without one
	}{
		{&s.Policy, "symphony", "symphony"},
		{&s.Network, "none", "none"},
		{&s.Arrivals, "trace", "poisson"},
		{&s.Popularity, "trace", "equal"},
	} {
		if *f.text == "" && s.Trace != nil {
			*f.text = f.trace
		} else if *f.text == "" {
			*f.text = f.drawing
		}
	}
	s.fillMargin()
	if s.Events == nil {
		s.Events = []string{} // JSON: [], as when it is read back
	}
}

// simModels makes the models, each of which must be able to meet its SLO.
func simModels(models []zoo.Model, n *sim.Network) ([]sim.Model, error) {
	if len(models) == 0 {
		return nil, refuse("models", "none; "+modelsHelp)
	}
	var out []sim.Model
	for _, m := range models {
		if err := m.Check(); err != nil {
			return nil, wrap("models", err)
		}
		l, err := profile.Linear(m.Alpha, m.Beta, profile.BatchMax)
		if err != nil {
			return nil, refuse("models", "%s: %v", m.Name, err)
		}
		// An order and the input must reach the GPU, and the answer must come back.
		delay := n.Bound.Of(1) + n.Bound.Ctrl
		if need := l.Latency(1) + delay; m.SLO < need {
			return nil, refuse("models", "%s: the SLO, %v, is below l(1) = %v and the network's delay, %v: no request could be served in time", m.Name, m.SLO, l.Latency(1), delay)
		}
		out = append(out, sim.Model{Name: m.Name, Profile: l, SLO: m.SLO})
	}
	return out, nil
}

// arrivals reads the stream or the trace, and the models' shares.
func (p *Plan) arrivals(s *Scenario) (err error) {
	if s.Trace == nil {
		if p.shares, err = workload.Shares(s.Popularity, len(s.Models)); err != nil {
			return wrap("popularity", err)
		}
		p.stream, err = parseArrivals(s.Arrivals, s.RateProfile)
		return err
	}
	switch {
	case s.Arrivals != "trace":
		return refuse("arrivals", "%q has no effect with --trace: leave it out", s.Arrivals)
	case s.RateProfile != "":
		return refuse("rate-profile", "%q has no effect with --trace: leave it out", s.RateProfile)
	}
	equal, given := "equal", s.Popularity
	if given != "trace" {
		equal = given
	}
	shares, err := workload.Shares(equal, len(s.Models))
	if err != nil {
		return wrap("popularity", err)
	}
	names := make([]string, len(s.Models))
	for i := range names {
		names[i] = s.Models[i].Name
	}
	if p.trace, err = newTrace(*s.Trace, names, shares); err != nil {
		return err
	}
	s.Trace, p.shares, p.stream.Process = &p.trace.Trace, p.trace.shares, workload.Poisson
	if p.trace.Models == drawn {
		s.Popularity = equal
	} else if given != "trace" {
		return refuse("popularity", "%q has no effect: the trace says which model is asked for (%s)", given, p.trace.Models)
	}
	return p.trace.covers(s.Warmup + s.Duration)
}

// alike puts each model into the group of the first model with the same
// profile, SLO and share: their requests are draws of one distribution.
func alike(models []zoo.Model, shares []float64) []int {
	type kind struct {
		zoo.Model
		share float64
	}
	first := map[kind]int{}
	groups := make([]int, len(models))
	for i, m := range models {
		m.Name = ""
		k := kind{m, shares[i]}
		if _, ok := first[k]; !ok {
			first[k] = i
		}
		groups[i] = first[k]
	}
	return groups
}

// run is one simulation: its configuration, and the open trace if there is
// one.
type run struct {
	cfg    *sim.Config
	replay *replay
}

// prepare makes a run at that rate (0: the trace's own).
func (p *Plan) prepare(rate float64, seed uint64, observer sim.Observer) (run, error) {
	s, offered := &p.Scenario, rate
	if p.trace != nil && rate == 0 {
		offered = p.trace.rate * p.trace.Speed
	}
	if !(offered > 0 && offered <= rateMax) {
		return run{}, refuse("rate", "%g requests/s, must be above 0 and at most %g", offered, float64(rateMax))
	}
	models := make([]sim.Model, len(p.models))
	for i, m := range p.models {
		m.Stream = p.stream
		m.Stream.Rate = offered * p.shares[i] // with a trace: what Nexus's first plan is made for
		models[i] = m
	}
	cfg := &sim.Config{Models: models, GPUs: s.GPUs, Events: p.events, Detection: s.Detection, Network: p.network, Jitter: sim.Jitter{Share: s.Jitter},
		Pauses: p.pauses, Margins: s.Margin == measured,
		Warmup: s.Warmup, Duration: s.Duration, Frontends: s.Frontends, Seed: seed, NewPolicy: p.policy.New, Observer: observer}
	if err := cfg.Check(); err != nil {
		return run{}, err
	}
	if p.Events != nil {
		sim.Watch(cfg, p.Events)
	}
	r := run{cfg: cfg}
	if p.trace != nil {
		replay, err := p.trace.open(rate, seed)
		if err != nil {
			return run{}, err
		}
		r.replay, cfg.Source = replay, replay
	}
	return r, nil
}

// close ends the run's trace; it may be called twice.
func (r *run) close() error {
	if r.replay == nil {
		return nil
	}
	replay := r.replay
	r.replay = nil
	return replay.Close()
}

func (r *run) simulate(stop func() bool) (*sim.Result, error) {
	result, err := sim.Run(r.cfg, stop)
	return result, errors.Join(err, r.close())
}
