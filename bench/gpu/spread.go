package gpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// spread is how much one batch's time varies.
type spread struct {
	Model     string    `json:"model"`
	Batch     int       `json:"batch"`
	Wanted    int       `json:"wanted"`
	Runs      int       `json:"runs"` // as many as there was time for
	P50MS     float64   `json:"p50_ms"`
	P99MS     float64   `json:"p99_ms"`
	P9999MS   float64   `json:"p9999_ms"` // 0: fewer runs than it takes
	MinMS     float64   `json:"min_ms"`
	MaxMS     float64   `json:"max_ms"`
	FirstMS   float64   `json:"median_of_first_tenth_ms"`
	LastMS    float64   `json:"median_of_last_tenth_ms"` // the clocks' way
	MicrosRun []float64 `json:"-"`                       // each run's, in order
}

// spreadRuns are wanted, and spreadLeast are too few to tell a p99.
const (
	spreadRuns  = 10_000
	spreadLeast = 100
)

// measureSpread runs one size of the first model over and over.
func measureSpread(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	m := &d.Models[0]
	size, err := d.sizeFor(ctx, leftOf(ctx)*7/10)
	if err != nil {
		return nil, err
	}
	s, free, err := d.shot(m, 0, size, 0)
	if err != nil {
		return nil, err
	}
	defer free()
	r := &spread{Model: m.Spec.Key(), Batch: size, Wanted: spreadRuns}
	var spans []mono.Dur
	enough := mono.Now().Add(planned(ctx))
	for i := 0; i < warmRuns+spreadRuns && (mono.Now() < enough || len(spans) == 0); i++ {
		one, err := s.run(ctx, d.GPU)
		if err != nil {
			return r.of(spans), err
		}
		if i >= warmRuns {
			spans = append(spans, one.span())
		}
	}
	if r.of(spans); len(spans) < spreadLeast {
		return r, fmt.Errorf("only %d runs in its time, too few to tell a p99", len(spans))
	}
	return r, nil
}

// sizeFor is the largest size of the first model, up to the middle of its ladder, of which all
// the runs fit into a span; the smallest where none does.
func (d *Direct) sizeFor(ctx context.Context, span mono.Dur) (int, error) {
	m := &d.Models[0]
	for i := len(m.Sizes) / 2; i > 0; i-- {
		s, free, err := d.shot(m, 0, m.Sizes[i], 0)
		if err != nil {
			return 0, err
		}
		var took mono.Dur
		for range warmRuns { // the last one's way there and back
			begin := mono.Now()
			if _, err = s.run(ctx, d.GPU); err != nil {
				break
			}
			took = mono.Now().Sub(begin)
		}
		free()
		if err != nil {
			return 0, err
		}
		if took*spreadRuns <= span {
			return m.Sizes[i], nil
		}
	}
	return m.Sizes[0], nil
}

// of fills in what spans tell, in the order in which they were measured.
func (r *spread) of(spans []mono.Dur) *spread {
	if r.Runs = len(spans); r.Runs == 0 {
		return r
	}
	for _, s := range spans {
		r.MicrosRun = append(r.MicrosRun, float64(s)/1e3)
	}
	tenth := max(1, len(spans)/10)
	r.FirstMS, r.LastMS = median(spans[:tenth]).Millis(), median(spans[len(spans)-tenth:]).Millis()
	sorted := slices.Clone(spans)
	slices.Sort(sorted)
	r.MinMS, r.MaxMS = sorted[0].Millis(), sorted[len(sorted)-1].Millis()
	r.P50MS, r.P99MS = percentile(sorted, 0.5).Millis(), percentile(sorted, 0.99).Millis()
	if r.Runs >= spreadRuns {
		r.P9999MS = percentile(sorted, 0.9999).Millis()
	}
	return r
}

// percentile is the least of sorted spans that a share of them does not exceed.
func percentile(sorted []mono.Dur, share float64) mono.Dur {
	n := len(sorted)
	at := int(float64(n)*share+0.999999) - 1
	return sorted[min(max(at, 0), n-1)]
}

func median(spans []mono.Dur) mono.Dur {
	s := slices.Clone(spans)
	slices.Sort(s)
	return s[len(s)/2]
}

func (r *spread) summary() string {
	return fmt.Sprintf("%s, batches of %d, %d runs: p50 %.3f ms, p99 %.3f ms, p99.99 %s ms", r.Model, r.Batch, r.Runs, r.P50MS, r.P99MS, millisOrNot(r.P9999MS))
}

func millisOrNot(v float64) string {
	if v == 0 {
		return "not told"
	}
	return fmt.Sprintf("%.3f", v)
}

func (r *spread) table() [][]string {
	t := [][]string{{"run", "us"}}
	for i, us := range r.MicrosRun {
		t = append(t, []string{fmt.Sprint(i), precise(us)})
	}
	return t
}

func (r *spread) pictures() []named {
	if r.Runs < 2 {
		return nil
	}
	lines := []plot.Ref{{At: r.P50MS, Label: "p50"}, {At: r.P99MS, Label: "p99"}}
	if r.P9999MS > 0 {
		lines = append(lines, plot.Ref{At: r.P9999MS, Label: "p99.99"})
	}
	values := make([]float64, len(r.MicrosRun))
	at := make([]float64, len(r.MicrosRun))
	for i, us := range r.MicrosRun {
		values[i], at[i] = us/1e3, float64(i+1)
	}
	if !slices.ContainsFunc(values, func(v float64) bool { return v != values[0] }) {
		return nil // all equal: no distribution
	}
	name := fmt.Sprintf("%s, batches of %d", r.Model, r.Batch)
	x, y := thin(at, values, 1000)
	return []named{{"spread", "Execution times", plot.Size{W: 9, H: 3.6}, plot.Grid{Title: name, Cols: 2, Panels: []plot.Picture{
		plot.CDF{Title: "Distribution", X: plot.Axis{Label: "execution (ms)"}, Of: "runs", Series: []plot.Samples{{Name: name, Values: values}}, VLines: lines, Legend: plot.LegendNone},
		plot.Lines{Title: "In the order of the runs, the longest of each few", X: plot.Axis{Label: "run"}, Y: plot.Axis{Label: "execution (ms)"}, Series: []plot.Series{{Name: name, X: x, Y: y}}, Legend: plot.LegendNone},
	}}}}
}

// thin keeps at most so many points: of neighbours the highest, which is what one looks for.
func thin(x, y []float64, most int) (tx, ty []float64) {
	if len(x) <= most {
		return x, y
	}
	each := (len(x) + most - 1) / most
	for i := 0; i < len(x); i += each {
		top := i
		for k := i; k < min(i+each, len(x)); k++ {
			if y[k] > y[top] {
				top = k
			}
		}
		tx, ty = append(tx, x[top]), append(ty, y[top])
	}
	return tx, ty
}

func (r *spread) text() string {
	how := fmt.Sprintf("%d runs", r.Runs)
	if r.Runs < r.Wanted {
		how = fmt.Sprintf("%d runs (%d were wanted; there was no time for more)", r.Runs, r.Wanted)
	}
	t := grid{{"p50 ms", "p99 ms", "p99.99 ms", "min ms", "max ms", "p99 / p50", "median of the first tenth", "of the last tenth"},
		{fmt.Sprintf("%.4f", r.P50MS), fmt.Sprintf("%.4f", r.P99MS), millisOrNot(r.P9999MS), fmt.Sprintf("%.4f", r.MinMS), fmt.Sprintf("%.4f", r.MaxMS),
			ratio(r.P99MS, r.P50MS), fmt.Sprintf("%.4f ms", r.FirstMS), fmt.Sprintf("%.4f ms", r.LastMS)}}
	return fmt.Sprintf("%s in batches of %d, one after the other: %s.\n\n%s", r.Model, r.Batch, how, t)
}
