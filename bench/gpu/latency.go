package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// latency is l(b) of each model.
type latency struct {
	Models []*latencyOf `json:"models"`
}

// latencyOf is one model's: the ladder's sizes, and a line through their medians.
type latencyOf struct {
	Model     string         `json:"model"`
	Precision string         `json:"precision"`
	Points    []latencyPoint `json:"points"`
	AlphaMS   float64        `json:"alpha_ms"`
	BetaMS    float64        `json:"beta_ms"`
	MostMS    float64        `json:"largest_error_ms"`
	Relative  float64        `json:"largest_relative_error"`
	RMSEMS    float64        `json:"rmse_ms"`
	R2        float64        `json:"r2"`
	Line      bool           `json:"is_line"` // as symphony profile has it
	Error     string         `json:"error,omitempty"`
}

// latencyPoint is one batch size.
type latencyPoint struct {
	Batch    int     `json:"batch"`
	MinMS    float64 `json:"min_ms"`
	MedianMS float64 `json:"median_ms"`
	P95MS    float64 `json:"p95_ms"`
	Runs     int     `json:"runs"`
}

// Runs of one size: those before them are not counted.
const (
	warmRuns  = 3
	countMost = 300
	countMin  = 3
)

// measureLatency runs each size of each model for its part of the time.
func measureLatency(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	all, points := &latency{}, 0
	for i := range d.Models {
		points += len(d.Models[i].Sizes)
	}
	var errs []error
	for i := range d.Models {
		m := &d.Models[i]
		one := &latencyOf{Model: m.Spec.Key(), Precision: string(m.Precision)}
		all.Models = append(all.Models, one)
		for _, size := range m.Sizes {
			if err = d.measureSize(ctx, i, size, mono.Now().Add(planned(ctx)/mono.Dur(max(1, points))), one); err != nil {
				err = fmt.Errorf("a batch of %d: %w", size, err)
				break
			}
			points--
		}
		if err = errors.Join(err, one.fit()); err != nil {
			one.Error = err.Error()
			errs = append(errs, fmt.Errorf("%s: %w", one.Model, err))
		}
		if ctx.Err() != nil || errors.Is(err, errHang) {
			break
		}
	}
	return all, errors.Join(errs...)
}

// measureSize runs one size until an instant.
func (d *Direct) measureSize(ctx context.Context, index, size int, until mono.Time, one *latencyOf) error {
	s, free, err := d.shot(&d.Models[index], index, size, 0)
	if err != nil {
		return err
	}
	defer free()
	var spans []mono.Dur
	for i := 0; i < warmRuns+countMost; i++ {
		if len(spans) >= countMin && mono.Now() > until {
			break
		}
		r, err := s.run(ctx, d.GPU)
		if err != nil {
			return err
		}
		if i >= warmRuns {
			spans = append(spans, r.span())
		}
	}
	slices.Sort(spans)
	n := len(spans)
	one.Points = append(one.Points, latencyPoint{Batch: size, MinMS: spans[0].Millis(), MedianMS: spans[n/2].Millis(), P95MS: spans[min(n-1, n*95/100)].Millis(), Runs: n})
	return nil
}

// fit draws the line through what was measured.
func (l *latencyOf) fit() error {
	if len(l.Points) < 2 {
		return nil // nothing to fit
	}
	var samples []profile.Sample
	for _, p := range l.Points {
		samples = append(samples, profile.Sample{Batch: p.Batch, Latency: mono.FromMillis(p.MedianMS)})
	}
	line, err := profile.Fit(samples)
	if err != nil {
		return err
	}
	l.AlphaMS, l.BetaMS, l.MostMS, l.RMSEMS = line.Alpha.Millis(), line.Beta.Millis(), line.MaxError.Millis(), line.RMSE.Millis()
	l.Relative, l.R2 = line.RelError, line.R2
	l.Line = l.R2 >= profiler.LineR2 && l.Relative <= profiler.LineRelError
	return nil
}

func (l *latencyOf) at(batch int) float64 { return l.AlphaMS*float64(batch) + l.BetaMS }

func (l *latency) summary() string {
	for _, m := range l.Models {
		if len(m.Points) > 1 {
			return fmt.Sprintf("%s: l(b) = %.4f ms * b + %.4f ms, off by at most %.0f %%; %d models", m.Model, m.AlphaMS, m.BetaMS, 100*m.Relative, len(l.Models))
		}
	}
	return "nothing was measured"
}

func (l *latency) table() [][]string {
	t := [][]string{{"model", "precision", "batch", "min_ms", "median_ms", "p95_ms", "line_ms", "runs"}}
	for _, m := range l.Models {
		for _, p := range m.Points {
			t = append(t, []string{m.Model, m.Precision, fmt.Sprint(p.Batch), precise(p.MinMS), precise(p.MedianMS), precise(p.P95MS), precise(m.at(p.Batch)), fmt.Sprint(p.Runs)})
		}
	}
	return t
}

func (l *latency) pictures() []named {
	var panels []plot.Picture
	for _, m := range l.Models {
		if len(m.Points) < 2 {
			continue
		}
		measured := plot.Series{Name: "measured, median", Points: true}
		high := plot.Series{Name: "95th percentile", Dashed: true}
		fitted := plot.Series{Name: "fit"}
		for _, p := range m.Points {
			x := float64(p.Batch)
			measured.X, measured.Y = append(measured.X, x), append(measured.Y, p.MedianMS)
			high.X, high.Y = append(high.X, x), append(high.Y, p.P95MS)
			fitted.X, fitted.Y = append(fitted.X, x), append(fitted.Y, m.at(p.Batch))
		}
		panels = append(panels, plot.Lines{Title: m.Model, X: plot.Axis{Label: "batch size"}, Y: plot.Axis{Label: "l(b) (ms)"},
			Series: []plot.Series{measured, high, fitted}})
	}
	if len(panels) == 0 {
		return nil
	}
	rows := (len(panels) + 1) / 2
	return []named{{"latency", "l(b) of each model", plot.Size{W: 8.5, H: 0.6 + 2.6*float64(rows)}, plot.Grid{Cols: min(2, len(panels)), Shared: true, Panels: panels}}}
}

func (l *latency) text() string {
	t := grid{{"model", "precision", "alpha ms", "beta ms", "beta/alpha", "largest error", "R2", "a line?", "l(1) ms", "items/s at the largest size"}}
	for _, m := range l.Models {
		if len(m.Points) == 0 {
			t = append(t, []string{m.Model, m.Precision, "-", "-", "-", "-", "-", firstLine(m.Error), "-", "-"})
			continue
		}
		last := m.Points[len(m.Points)-1]
		row := []string{m.Model, m.Precision, "-", "-", "-", "-", "-", "one size only"}
		if len(m.Points) > 1 {
			row = []string{m.Model, m.Precision, fmt.Sprintf("%.4f", m.AlphaMS), fmt.Sprintf("%.4f", m.BetaMS), ratio(m.BetaMS, m.AlphaMS),
				fmt.Sprintf("%.3f ms (%.0f %%)", m.MostMS, 100*m.Relative), fmt.Sprintf("%.4f", m.R2), map[bool]string{true: "yes", false: "no"}[m.Line]}
		}
		if m.Error != "" {
			row[7] = firstLine(m.Error)
		}
		t = append(t, append(row, fmt.Sprintf("%.3f (%d)", m.Points[0].MedianMS, m.Points[0].Batch), fmt.Sprintf("%s (%d)", thousands(1000*float64(last.Batch)/last.MedianMS), last.Batch)))
	}
	return fmt.Sprintf("Medians of runs, by the device's events, over the sizes of the ladder. It is a line where no size is more than %.0f %% from it and R2 is %.2f or more; the scheduler plans with the table of what was measured either way.\n\n%s",
		100*profiler.LineRelError, profiler.LineR2, t)
}
