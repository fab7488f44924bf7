package gpu

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
)

// prediction is how far batches end from where the plan had them.
type prediction struct {
	Workload string         `json:"workload"`
	Rate     float64        `json:"rate_rps"`
	How      string         `json:"rate_is"`
	Seconds  float64        `json:"seconds"`
	BadRate  float64        `json:"bad_rate"`
	Verdict  string         `json:"verdict"`
	Batches  int            `json:"batches"`
	End      errorSpread    `json:"end"`    // measured end - planned end; above 0: late
	Length   errorSpread    `json:"length"` // measured execution - planned length
	Models   []predictionOf `json:"models"`
}

// predictionOf is one model's.
type predictionOf struct {
	Model   string      `json:"model"`
	Batches int         `json:"batches"`
	End     errorSpread `json:"end"`
	Length  errorSpread `json:"length"`
}

// errorSpread is a distribution of errors.
type errorSpread struct {
	P1MS   float64 `json:"p1_ms"`
	P50MS  float64 `json:"p50_ms"`
	P99MS  float64 `json:"p99_ms"`
	MaxMS  float64 `json:"max_ms"`
	MeanMS float64 `json:"mean_absolute_ms"`
	Late   float64 `json:"share_above_1ms"`
	Bins   []bin   `json:"bins,omitempty"`
}

// bin counts values in [From, To); the first and the last have all beyond.
type bin struct {
	From  float64 `json:"from_ms"`
	To    float64 `json:"to_ms"`
	Count int     `json:"count"`
}

// binsMost are as many as a histogram shows.
const binsMost = 25

// measurePrediction looks at the batches of one load.
func measurePrediction(ctx context.Context, b *bench) (section, error) {
	l, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	p := &prediction{Workload: l.workload.Name, Rate: l.rate, How: l.how, Seconds: l.seconds, BadRate: l.report.All.BadRate, Verdict: l.report.Verdict}
	p.of(l)
	return p, nil
}

func (p *prediction) of(l *live) {
	type lists struct{ end, length []float64 }
	var all lists
	by := make([]lists, len(l.models))
	for _, r := range l.runs {
		end, length := r.end.Sub(r.until).Millis(), (r.end.Sub(r.start) - r.until.Sub(r.exec)).Millis()
		all.end, all.length = append(all.end, end), append(all.length, length)
		if i := l.index(r.model); i >= 0 {
			by[i].end, by[i].length = append(by[i].end, end), append(by[i].length, length)
		}
	}
	p.Batches = len(all.end)
	p.End, p.Length = spreadOf(all.end), spreadOf(all.length)
	p.End.Bins, p.Length.Bins = histogram(all.end, binsMost), histogram(all.length, binsMost)
	for i, m := range l.models {
		p.Models = append(p.Models, predictionOf{Model: m.name, Batches: len(by[i].end), End: spreadOf(by[i].end), Length: spreadOf(by[i].length)})
	}
}

func spreadOf(values []float64) (e errorSpread) {
	if len(values) == 0 {
		return e
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	at := func(share float64) float64 { return sorted[min(n-1, int(share*float64(n)))] }
	e.P1MS, e.P50MS, e.P99MS, e.MaxMS = at(0.01), at(0.5), at(0.99), sorted[n-1]
	late := 0
	for _, v := range sorted {
		e.MeanMS += math.Abs(v)
		if v > 1 {
			late++
		}
	}
	e.MeanMS, e.Late = e.MeanMS/float64(n), float64(late)/float64(n)
	return e
}

// histogram counts values in bins of a round width, so that 98 % of them lie within, and 0 is
// a bin's edge.
func histogram(values []float64, most int) []bin {
	if len(values) == 0 {
		return nil
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	low, high := sorted[len(sorted)/100], sorted[len(sorted)-1-len(sorted)/100]
	width := roundWidth((high - low) / float64(most-3))
	from := math.Floor(low/width) * width
	n := min(most, int(math.Floor((high-from)/width))+1)
	bins := make([]bin, n)
	for i := range bins {
		bins[i].From, bins[i].To = from+float64(i)*width, from+float64(i+1)*width
	}
	for _, v := range values {
		i := int(math.Floor((v - from) / width))
		bins[min(max(i, 0), n-1)].Count++
	}
	return bins
}

// roundWidth is the least of 1, 2, 5, 10, ... microseconds that is as large.
func roundWidth(least float64) float64 {
	for unit := 0.001; ; unit *= 10 {
		for _, k := range []float64{1, 2, 5} {
			if k*unit >= least {
				return k * unit
			}
		}
	}
}

func (p *prediction) summary() string {
	return fmt.Sprintf("%d batches at %s requests/s: ends are %+.2f ms from the plan at the median, %+.2f ms at p99; %.2f %% bad",
		p.Batches, thousands(p.Rate), p.End.P50MS, p.End.P99MS, 100*p.BadRate)
}

func (p *prediction) table() [][]string {
	t := [][]string{{"what", "from_ms", "to_ms", "batches"}}
	for _, k := range []struct {
		what string
		bins []bin
	}{{"end", p.End.Bins}, {"length", p.Length.Bins}} {
		for _, b := range k.bins {
			t = append(t, []string{k.what, precise(b.From), precise(b.To), fmt.Sprint(b.Count)})
		}
	}
	return t
}

func (p *prediction) pictures() []named {
	panel := func(title string, bins []bin) plot.Picture {
		l := plot.Lines{Title: title, X: plot.Axis{Label: "measured - planned (ms)"}, Y: plot.Axis{Label: "share of the batches (%)"}, Legend: plot.LegendNone,
			VLines: []plot.Ref{{At: 0, Label: "as planned"}}}
		s := plot.Series{Name: title}
		share := func(b bin) float64 { return 100 * float64(b.Count) / float64(p.Batches) }
		s.X, s.Y = append(s.X, bins[0].From), append(s.Y, 0)
		for _, b := range bins { // steps
			s.X, s.Y = append(s.X, b.From, b.To), append(s.Y, share(b), share(b))
		}
		s.X, s.Y = append(s.X, bins[len(bins)-1].To), append(s.Y, 0)
		l.Series = []plot.Series{s}
		return l
	}
	if len(p.End.Bins) == 0 {
		return nil
	}
	return []named{{"prediction", "Planned against measured", plot.Size{W: 9, H: 3.4}, plot.Grid{Cols: 2, Panels: []plot.Picture{
		panel("End of batches", p.End.Bins), panel("Length of executions", p.Length.Bins)}}}}
}

func (p *prediction) text() string {
	t := grid{{"model", "batches", "end: p1 ms", "p50 ms", "p99 ms", "most ms", "later than 1 ms", "length: p1 ms", "p50 ms", "p99 ms"}}
	row := func(name string, n int, end, length errorSpread) {
		t = append(t, []string{name, fmt.Sprint(n), fmt.Sprintf("%+.2f", end.P1MS), fmt.Sprintf("%+.2f", end.P50MS), fmt.Sprintf("%+.2f", end.P99MS), fmt.Sprintf("%+.2f", end.MaxMS), percent(end.Late),
			fmt.Sprintf("%+.2f", length.P1MS), fmt.Sprintf("%+.2f", length.P50MS), fmt.Sprintf("%+.2f", length.P99MS)})
	}
	row("all", p.Batches, p.End, p.Length)
	for _, m := range p.Models {
		row(m.Model, m.Batches, m.End, m.Length)
	}
	return fmt.Sprintf("%s at %s requests/s (%s) for %.0f s, %.2f %% bad: %s. Planned is what the scheduler told the backend with the order; a batch that may start before its planned start does, so an end before the plan is no error. The first and the last bin have all that lies beyond.\n\n%s",
		p.Workload, thousands(p.Rate), p.How, p.Seconds, 100*p.BadRate, p.Verdict, t)
}
