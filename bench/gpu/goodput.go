package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// goodput is what the whole system carries.
type goodput struct {
	GPUs      int          `json:"gpus"`
	Workloads []*goodputOf `json:"workloads"`
}

// goodputOf is one workload's, by policy.
type goodputOf struct {
	Workload string          `json:"workload"`
	Models   []goodputModel  `json:"models"`
	Bound    float64         `json:"bound_rps"`
	Kind     string          `json:"bound"` // staggered or fluid
	Policies []goodputPolicy `json:"policies"`
}

// goodputModel is what the bound was reckoned from.
type goodputModel struct {
	Model     string  `json:"model"`
	SLOMS     float64 `json:"slo_ms"`
	L1MS      float64 `json:"l1_ms"`
	Batch     int     `json:"staggered_batch"`
	Staggered float64 `json:"staggered_rps"` // if it were alone
}

// goodputPolicy is one policy's.
type goodputPolicy struct {
	Policy string `json:"policy"`
	found
	Error string `json:"error,omitempty"`
}

// badMost is how many of a model's requests may be late or dropped at a rate that is carried.
const badMost = 0.01

// Of each rate: what is not counted, and what is.
const (
	pointWarmup = 500 * mono.Millisecond
	pointSpan   = 2000 * mono.Millisecond
	pointLeast  = 700 * mono.Millisecond // in short runs
	pointsEach  = 6                      // a search needs about so many
)

// measureGoodput searches the highest rate of each workload with each policy.
func measureGoodput(ctx context.Context, b *bench) (section, error) {
	s, err := b.serve(ctx)
	if err != nil {
		return nil, err
	}
	all := &goodput{GPUs: s.GPUs}
	var errs []error
	searches := len(s.Workloads) * len(s.Policies)
	for _, w := range s.Workloads {
		one, err := s.workload(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.Name, err))
			searches -= len(s.Policies)
			continue
		}
		all.Workloads = append(all.Workloads, one)
		b.best = 0
		for i, policy := range s.Policies {
			p := goodputPolicy{Policy: policy}
			p.found, err = b.carried(ctx, s, w, policy, one, planned(ctx)/mono.Dur(searches))
			searches--
			if i == 0 {
				b.best = p.Best
			}
			if err == nil && p.Best == 0 {
				err = errors.New("no rate was carried")
			}
			if err != nil {
				p.Error = err.Error()
				errs = append(errs, fmt.Errorf("%s, %s: %w", w.Name, policy, err))
			}
			one.Policies = append(one.Policies, p)
			if ctx.Err() != nil {
				return all, errors.Join(errs...)
			}
			b.tell("  %s, %s: %s requests/s (bound %s)\n", w.Name, policy, thousands(p.Best), thousands(one.Bound))
		}
	}
	return all, errors.Join(errs...)
}

// workload reckons the bounds from the profiles that the scheduler has.
func (s *System) workload(w Workload) (*goodputOf, error) {
	models, err := s.models(w)
	if err != nil {
		return nil, err
	}
	one := &goodputOf{Workload: w.Name}
	one.Bound, one.Kind = bounds(models, s.GPUs)
	for _, m := range models {
		g := goodputModel{Model: m.name, SLOMS: m.slo.Millis(), L1MS: m.profile.Latency(1).Millis()}
		g.Batch, g.Staggered = report.Staggered(m.profile, m.slo, s.GPUs)
		one.Models = append(one.Models, g)
	}
	if one.Bound < 1 {
		return nil, fmt.Errorf("its SLO is shorter than two batches of one (l(1) = %.2f ms): no goodput to look for", one.Models[0].L1MS)
	}
	return one, nil
}

// carried searches in a span, of which the policy's start is a part.
func (b *bench) carried(ctx context.Context, s *System, w Workload, policy string, one *goodputOf, span mono.Dur) (found, error) {
	end := mono.Now().Add(span)
	if err := s.Use(ctx, policy); err != nil {
		return found{}, err
	}
	models, err := s.models(w)
	if err != nil {
		return found{}, err
	}
	each := max(pointLeast, min(pointSpan+pointWarmup, end.Sub(mono.Now())/pointsEach))
	warmup := each / 5
	point := func(ctx context.Context, rate float64) (tried, error) {
		if end.Sub(mono.Now()) < each {
			return tried{}, errEnough
		}
		r, err := s.offer(ctx, models, rate, warmup, each-warmup)
		if err != nil {
			return tried{}, err
		}
		return judge(rate, r), nil
	}
	guess := 0.7 * one.Bound
	if b.best > 0 { // of the policy before: others are not far
		guess = b.best
	}
	return search(ctx, guess, point)
}

// judge tells whether a rate was carried: no model has too many bad requests, and none of the
// generator's own failures are among them.
func judge(rate float64, r *report.Report) tried {
	t := tried{Rate: rate, P99: r.All.P99, Held: r.Valid}
	for _, m := range r.Models {
		t.Bad = max(t.Bad, m.BadRate)
	}
	t.Held = t.Held && t.Bad <= badMost
	return t
}

// of finds a policy's.
func (o *goodputOf) of(policy string) *goodputPolicy {
	for i := range o.Policies {
		if o.Policies[i].Policy == policy {
			return &o.Policies[i]
		}
	}
	return nil
}

func (g *goodput) summary() string {
	for _, w := range g.Workloads {
		if len(w.Policies) > 0 {
			p := w.Policies[0]
			return fmt.Sprintf("%s, %s: %s requests/s, %.0f %% of the %s bound", w.Workload, p.Policy, thousands(p.Best), 100*p.Best/w.Bound, w.Kind)
		}
	}
	return "nothing was measured"
}

func (g *goodput) table() [][]string {
	t := [][]string{{"workload", "policy", "rate_rps", "held", "bad_rate", "p99_ms", "bound_rps", "bound"}}
	for _, w := range g.Workloads {
		for _, p := range w.Policies {
			for _, k := range p.Tried {
				t = append(t, []string{w.Workload, p.Policy, precise(k.Rate), fmt.Sprint(k.Held), precise(k.Bad), precise(k.P99), precise(w.Bound), w.Kind})
			}
		}
	}
	return t
}

func (g *goodput) pictures() []named {
	bars := plot.Bars{Y: plot.Axis{Label: "requests/s"}}
	byPolicy := map[string]int{}
	bound := plot.BarSeries{Name: "bound"}
	any := false
	for n, w := range g.Workloads {
		bars.Groups = append(bars.Groups, w.Workload)
		bound.Bars = append(bound.Bars, plot.Bar{Value: w.Bound})
		for _, p := range w.Policies {
			i, ok := byPolicy[p.Policy]
			if !ok {
				i = len(bars.Series)
				byPolicy[p.Policy] = i
				bars.Series = append(bars.Series, plot.BarSeries{Name: p.Policy, Bars: make([]plot.Bar, len(g.Workloads))})
				for k := range bars.Series[i].Bars {
					bars.Series[i].Bars[k].Missing = true
				}
			}
			bars.Series[i].Bars[n] = plot.Bar{Value: p.Best}
			any = true
		}
	}
	if !any {
		return nil
	}
	bars.Series = append(bars.Series, bound)
	return []named{{"goodput", "Goodput by policy", plot.Size{W: 6.5, H: 3.6}, bars}}
}

func (g *goodput) text() string {
	t := grid{{"workload", "policy", "requests/s carried", "not carried", "of the bound", "against " + g.first(), "p99 ms there", "rates offered"}}
	m := grid{{"workload", "model", "SLO ms", "l(1) ms", "staggered batch", "staggered bound, alone"}}
	for _, w := range g.Workloads {
		for _, k := range w.Models {
			m = append(m, []string{w.Workload, k.Model, number(k.SLOMS), fmt.Sprintf("%.3f", k.L1MS), fmt.Sprint(k.Batch), thousands(k.Staggered)})
		}
		ours := w.of(g.first())
		for _, p := range w.Policies {
			row := []string{w.Workload, p.Policy, thousands(p.Best), orNone(thousands(p.Worse)), fmt.Sprintf("%s of %s (%s)", percent(p.Best/w.Bound), thousands(w.Bound), w.Kind), "-", "-", fmt.Sprint(len(p.Tried))}
			if ours != nil && ours.Best > 0 {
				row[5] = percent(p.Best / ours.Best)
			}
			for _, k := range p.Tried {
				if k.Rate == p.Best {
					row[6] = fmt.Sprintf("%.1f", k.P99)
				}
			}
			if p.Error != "" {
				row[6] = firstLine(p.Error)
			}
			t = append(t, row)
		}
	}
	return fmt.Sprintf("The highest rate of Poisson arrivals at which no model has more than %.0f %% bad requests, late ones among them, on %d GPU(s): client, scheduler and backend in one process, links and inputs over TCP loopback. Each rate is offered for some seconds only, so the last per cents are chance. Bounds are from the profiles that the scheduler planned with.\n\n%s\n%s", 100*badMost, g.GPUs, t, m)
}

// first is the policy that the others are compared with.
func (g *goodput) first() string {
	for _, w := range g.Workloads {
		for _, p := range w.Policies {
			return p.Policy
		}
	}
	return "the first"
}
