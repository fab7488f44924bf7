package draws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/bench/results"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// Ours is the policy that is compared, unless Options.Ours says another; Today
// what it was before it waited only when that pays.
const (
	Ours  = "symphony"
	Today = "symphony/defer"
)

// Policies are those of a report that this program has, likely winners first:
// that spares the others their searches.
func Policies() []string {
	var out []string
	for _, name := range []string{"eager/target", "timeout/target:0.2", "symphony/paper/target", Today, "clockwork", "symphony/code", "cork",
		"eager", "timeout:0.2", "symphony/paper", "symphony/head", "shepherd", "nexus", Ours} {
		if _, err := scenario.PolicyOf(name); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// Options of Run.
type Options struct {
	Settings
	Seed     uint64
	Mixes    []int    // indices
	Policies []string // that are measured; others count where they are kept
	Ours     string   // the policy that is compared with the best of all others; "": Ours
	Out      string   // folder
	Again    bool     // measure what came out below the line again
	Fresh    bool     // measure the policies again, those that are kept too
	Parallel int      // mixes at a time
	Progress io.Writer
	Command  string // as typed, for the report
}

// runner measures mixes.
type runner struct {
	opts  Options
	names []string // all policies that count
	store *results.Store

	mu sync.Mutex // Guards Progress.
}

// resultsOf is the command that writes the results.
const resultsOf = "symphony bench draws"

// newRunner checks the options and opens the results.
func newRunner(opts Options) (*runner, error) {
	if len(opts.Policies) == 0 {
		opts.Policies = Policies()
	}
	opts.Ours = cmp.Or(opts.Ours, Ours)
	if err := checkPolicies(opts.Policies); err != nil {
		return nil, err
	}
	if _, err := scenario.PolicyOf(opts.Ours); err != nil {
		return nil, fmt.Errorf("--ours: %w", err)
	}
	if err := os.MkdirAll(opts.Out, 0o755); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	store, err := results.Open(filepath.Join(opts.Out, "results.jsonl"), resultsOf, false, opts.Progress)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	r := &runner{opts: opts, store: store, names: slices.Clone(opts.Policies)}
	for _, name := range append(Policies(), opts.Ours) {
		if !slices.Contains(r.names, name) {
			r.names = append(r.names, name)
		}
	}
	return r, nil
}

// all measures the mixes, several at a time, and returns what there is of them,
// in their order. The first error ends it; what is done is kept.
func (r *runner) all(ctx context.Context) ([]*Outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]*Outcome, len(r.opts.Mixes))
	queue := make(chan int)
	var wait sync.WaitGroup
	for range max(1, r.opts.Parallel) {
		wait.Go(func() {
			for i := range queue {
				o, err := r.mix(Draw(r.opts.Seed, r.opts.Mixes[i]), func() bool { return ctx.Err() != nil })
				if err != nil {
					cancel(err)
					continue
				}
				out[i] = o
				r.say(o)
			}
		})
	}
	for i := range out {
		select {
		case queue <- i:
		case <-ctx.Done():
		}
	}
	close(queue)
	wait.Wait()
	out = slices.DeleteFunc(out, func(o *Outcome) bool { return o == nil })
	err := context.Cause(ctx)
	if errors.Is(err, sim.ErrStopped) || errors.Is(err, context.Canceled) {
		err = fmt.Errorf("interrupted; what is done is in %s, run again to go on", r.store.Path())
	}
	return out, err
}

// say prints a mix's line.
func (r *runner) say(o *Outcome) {
	if r.opts.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.opts.Progress, o.Line())
}

// key of a result.
type key struct {
	Kind      string  `json:"kind"` // pilot, turn, over, blame
	Generator int     `json:"generator"`
	Core      int     `json:"core"` // sim.CoreVersion
	Seed      uint64  `json:"seed"`
	Index     int     `json:"index"`
	Policy    string  `json:"policy,omitempty"`
	Span      Span    `json:"span,omitzero"`
	Tolerance float64 `json:"tolerance,omitempty"`
	Arrivals  []int   `json:"arrivals,omitempty"` // numbers of the arrivals' seeds
	Rate      string  `json:"rate,omitempty"`     // offered, over, in three digits; where a search began
}

func (r *runner) key(kind string, m *Mix) key {
	return key{Kind: kind, Generator: Generator, Core: sim.CoreVersion, Seed: m.Seed, Index: m.Index}
}

// find looks a result up.
func find[T any](r *runner, k key) (v T, ok bool, err error) {
	text, err := json.Marshal(k)
	if err != nil {
		return v, false, err
	}
	raw, ok := r.store.Find(string(text))
	if !ok {
		return v, false, nil
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, false, fmt.Errorf("%s: result of %s: %w", r.store.Path(), text, err)
	}
	return v, true, nil
}

// keep keeps a result.
func keep[T any](r *runner, k key, v T) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return r.store.Add(string(text), raw)
}

// mix measures one mix.
func (r *runner) mix(m *Mix, stop func() bool) (*Outcome, error) {
	o := &Outcome{Ours: r.opts.Ours, Mix: m, Found: map[string]Found{}, Over: map[string]Over{}}
	began := time.Now()
	k := r.key("pilot", m)
	k.Span = r.opts.pilotSpan(m)
	at, ok, err := find[Found](r, k)
	if err == nil && !ok {
		if at, err = pilot(m, k.Span, stop); err == nil {
			o.Ran.add(at)
			err = keep(r, k, at)
		}
	}
	if err != nil {
		return nil, err
	}
	if o.Span, err = r.opts.span(m, at.Rate); err != nil {
		return nil, err
	}
	s := &searches{r: r, o: o, names: r.names, policies: r.opts.Policies, fresh: r.fresh(), bench: newBench(m, o.Span, r.opts.grid(at.Rate), firstArrivals(), stop)}
	if err := s.run(); err != nil {
		return nil, err
	}
	if err := r.over(o, stop); err != nil {
		return nil, err
	}
	if r.opts.Again {
		if err := r.again(o, stop); err != nil {
			return nil, err
		}
	}
	o.Took = time.Since(began).Seconds()
	return o, nil
}

// fresh are the policies that are measured again, those that are kept too.
func (r *runner) fresh() []string {
	if !r.opts.Fresh {
		return nil
	}
	return r.opts.Policies
}

// hopeless is the part of the best goodput below which a policy's own is not
// told but for ours.
const hopeless = 0.7

// over measures overload: of ours, and of all that have a goodput.
func (r *runner) over(o *Outcome, stop func() bool) error {
	peak := o.Best()
	if peak == 0 {
		return nil
	}
	b := newBench(o.Mix, o.overloaded(), grid{}, firstArrivals(), stop)
	for _, name := range r.names {
		if f, ok := o.Found[name]; !ok || f.Rate == 0 {
			continue
		}
		k := r.key("over", o.Mix)
		k.Policy, k.Span, k.Rate = name, b.span, fmt.Sprintf("%.3g", overload*peak)
		v, ok, err := find[Over](r, k)
		if err == nil && (!ok || slices.Contains(r.fresh(), name)) {
			began := time.Now()
			if v, err = b.over(name, peak); err == nil {
				v.Worked = time.Since(began).Seconds()
				err = keep(r, k, v)
			}
		}
		if err != nil {
			return err
		}
		o.Over[name] = v
	}
	return nil
}

// overloaded: what is served in all needs no long span.
func (o *Outcome) overloaded() Span {
	s := Span{Seconds: max(min(o.Span.Seconds, 10), o.Span.Seconds/6), Warmup: min(o.Span.Warmup, 10)}
	if o.Mix.Change != "" {
		s.Seconds = changePeriod * math.Ceil(s.Seconds/changePeriod)
	}
	return s
}
