package overhead

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a run.
type Config struct {
	Duration mono.Dur // of each load that is measured
	Payload  int      // bytes of an input, for the floors
	Batch    int      // largest batch, for the floor of a whole batch; 0 is 1
	Seed     uint64
	Rate     float64 // requests/s that the loads are shares of; 0: the highest that is borne, which is searched
	Loads    []int   // percent of it
	Ways     []Way
	Progress func(text string) // may be nil
}

// Way is one kind of links; Start makes a system over them.
type Way struct {
	Name  string
	Start func(context.Context, *Recorder) (s *System, end func() error, err error)
}

// Result is what a run has measured. Spans are in microseconds.
type Result struct {
	Interrupted bool
	Payload     int
	FloorBatch  int   // requests in the batch of Floor.Batch
	Floor       Floor // of all moments together
	Ways        []WayResult
}

// WayResult is one kind of links.
type WayResult struct {
	Name    string
	Given   bool    // Highest is Config.Rate: nothing was searched
	Highest float64 // requests/s, the most at a bad rate below BadMost
	Bad     float64 `json:",omitzero"` // at Highest; not known where it was given
	Batch   float64 `json:",omitzero"` // mean size, likewise
	Loads   []Load
}

// Load is one share of the highest rate.
type Load struct {
	Percent int
	Offered float64 // requests/s
	Bad     float64
	Batch   float64 // mean size
	Lag     Spread  // how late the requests were sent: of no stage
	Invalid bool    `json:",omitzero"` // they were so late that this is no open loop
	Floor   Floor   // measured right before and after
	Stages  []StageSpread
}

// StageSpread is one stage of a load.
type StageSpread struct {
	Stage string
	Spread
}

// ErrNothing: the run was interrupted before a load was measured.
var ErrNothing = errors.New("interrupted before the first load was measured")

// Measure measures each way, and the floors beside it. An ended ctx ends it early: the
// Result has what was measured by then; ErrNothing if that is nothing.
func Measure(ctx context.Context, cfg Config) (*Result, error) {
	r := &Result{Payload: cfg.Payload, FloorBatch: max(1, cfg.Batch)}
	tell := func(format string, args ...any) {
		if cfg.Progress != nil {
			cfg.Progress(fmt.Sprintf(format, args...))
		}
	}
	floors := newFloors(cfg.Payload, r.FloorBatch)
	for _, w := range cfg.Ways {
		if ctx.Err() != nil {
			break
		}
		if err := r.measureWay(ctx, &cfg, w, floors, tell); err != nil {
			return nil, fmt.Errorf("%s: %w", w.Name, err)
		}
	}
	r.Floor = floors.spreads()
	if r.Interrupted = ctx.Err() != nil; r.Interrupted && len(r.Ways) == 0 {
		return nil, ErrNothing
	}
	return r, nil
}

func (r *Result) measureWay(ctx context.Context, cfg *Config, w Way, floors *floors, tell func(string, ...any)) (err error) {
	rec := &Recorder{}
	s, end, err := w.Start(ctx, rec)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	s.Recorder = rec
	g := newGenerator(s, cfg.Seed)
	way := WayResult{Name: w.Name}
	best := outcome{offered: cfg.Rate}
	if way.Given = cfg.Rate > 0; !way.Given {
		best = g.highest(ctx, cfg.Duration/4, func(o outcome) { tell("%s: %.0f requests/s offered, bad rate %.4f", w.Name, o.offered, o.bad) })
	}
	way.Highest, way.Bad, way.Batch = best.offered, best.bad, best.batch
	if way.Highest == 0 && ctx.Err() == nil {
		tell("floors: bare TCP and fasthttp")
		if err := floors.measure(ctx, cfg.Duration/2); err != nil {
			return err
		}
	}
	for _, p := range cfg.Loads {
		rate := best.offered * float64(p) / 100
		if ctx.Err() != nil || rate == 0 {
			break
		}
		l, err := g.load(ctx, cfg, p, rate, floors, func(text string) { tell("%s: %s at %d %% load, %.0f requests/s", w.Name, text, p, rate) })
		if err != nil {
			return err
		}
		if l.Stages != nil {
			way.Loads = append(way.Loads, l)
		}
	}
	if ctx.Err() == nil || len(way.Loads) > 0 {
		r.Ways = append(r.Ways, way)
	}
	return nil
}

// load measures one load, between the floors of its moment. It has no stages where
// nothing was measured.
func (g *generator) load(ctx context.Context, cfg *Config, percent int, rate float64, all *floors, tell func(string)) (l Load, err error) {
	floors := newFloors(all.payload, all.batch)
	tell("floors")
	if err = floors.measure(ctx, cfg.Duration/4); err == nil && ctx.Err() == nil {
		tell("stages")
		o := g.run(ctx, rate, cfg.Duration/5, cfg.Duration, true)
		if spans := g.s.Recorder.join(); len(spans[Own]) > 0 {
			l = newLoad(percent, o, g.lags, spans)
		}
		tell("floors")
		err = floors.measure(ctx, cfg.Duration/4)
	}
	l.Floor = floors.spreads()
	all.add(floors)
	return l, err
}

func newLoad(percent int, o outcome, lags []mono.Dur, spans [stages][]mono.Dur) Load {
	slices.Sort(lags)
	l := Load{Lag: spread(lags), Invalid: o.lag >= lagMost, Percent: percent, Offered: o.offered, Bad: o.bad, Batch: o.batch}
	for i := range spans {
		l.Stages = append(l.Stages, StageSpread{Stage(i).Name(), spread(spans[i])})
	}
	return l
}

// The search begins low, doubles, and then halves the interval so often. A rate
// counts as borne if one of its tries is: a pause of the machine is not the system's.
const (
	searchFrom  = 10000
	searchMost  = 1 << 30
	searchSteps = 4
	searchTries = 2
	// So often a rate is lowered that was borne only for the span of the search.
	confirmTries = 20
)

// highest searches the highest rate that is borne for d.
func (g *generator) highest(ctx context.Context, d mono.Dur, tell func(outcome)) (best outcome) {
	bears := func(rate float64) bool {
		for range searchTries {
			o := g.run(ctx, rate, d/4, d, false)
			if ctx.Err() != nil {
				return false
			}
			tell(o)
			if o.kept() {
				best = o
				return true
			}
		}
		return false
	}
	rate := float64(searchFrom)
	for rate < searchMost && bears(rate) {
		rate *= 2
	}
	for rate >= 2 && best.offered == 0 && ctx.Err() == nil && !bears(rate/2) {
		rate /= 2
	}
	low, high := best.offered, rate
	for range searchSteps {
		if ctx.Err() != nil {
			return outcome{}
		}
		if mid := (low + high) / 2; low > 0 && bears(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return g.confirm(ctx, best, 4*d, tell)
}

// confirm lowers a rate until it is borne for longer: a queue that grows slowly does
// not show in the search.
func (g *generator) confirm(ctx context.Context, best outcome, d mono.Dur, tell func(outcome)) outcome {
	rate := best.offered
	for range confirmTries {
		if rate == 0 || ctx.Err() != nil {
			break
		}
		o := g.run(ctx, rate, d/4, d, false)
		if ctx.Err() != nil {
			break
		}
		if tell(o); o.kept() {
			return o
		}
		rate *= 0.9
	}
	return outcome{}
}

// stage finds a stage's spread.
func (l *Load) stage(s Stage) Spread {
	if int(s) < len(l.Stages) {
		return l.Stages[s].Spread
	}
	return Spread{}
}

// sum is the sum of our own stages' medians.
func (l *Load) sum() float64 {
	sum := 0.0
	for s := range Own {
		sum += l.stage(s).P50
	}
	return sum
}
