package gpu

import (
	"context"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/transport/mono"
)

// timeline is who had the GPUs when.
type timeline struct {
	Workload string    `json:"workload"`
	Rate     float64   `json:"rate_rps"`
	GPUs     int       `json:"gpus"`
	Busy     []float64 `json:"busy"` // by GPU, over the whole load
	WindowMS float64   `json:"window_ms"`
	Batches  int       `json:"batches"` // of the window
	Mean     float64   `json:"batch_mean"`

	models []string
	from   mono.Time
	shown  []plot.Batch
}

// window is what is shown.
const window = 200 * mono.Millisecond

// drawTimeline shows a window in the middle of the load.
func drawTimeline(ctx context.Context, b *bench) (section, error) {
	l, err := b.load(ctx)
	if err != nil {
		return nil, err
	}
	t := &timeline{Workload: l.workload.Name, Rate: l.rate, GPUs: l.gpus, WindowMS: window.Millis()}
	t.of(l)
	if t.Batches == 0 {
		return t, errNoRuns
	}
	return t, nil
}

func (t *timeline) of(l *live) {
	for _, m := range l.models {
		t.models = append(t.models, m.name)
	}
	from, to := l.runs[0].start, l.runs[len(l.runs)-1].end
	t.Busy = make([]float64, t.GPUs)
	items := 0
	for _, r := range l.runs {
		to = max(to, r.end)
		items += r.size
	}
	for _, r := range l.runs {
		if int(r.gpu) < t.GPUs && to > from {
			t.Busy[r.gpu] += r.end.Sub(r.start).Seconds() / to.Sub(from).Seconds()
		}
	}
	t.Mean = float64(items) / float64(len(l.runs))
	t.from = l.runs[len(l.runs)/2].start
	if last := to.Add(-window); t.from > last {
		t.from = max(from, last)
	}
	for _, r := range l.runs {
		i := l.index(r.model)
		if r.end <= t.from || r.start >= t.from.Add(window) || i < 0 || int(r.gpu) >= t.GPUs {
			continue
		}
		t.shown = append(t.shown, plot.Batch{GPU: int(r.gpu), Model: i, Start: r.start - t.from, End: r.end - t.from, Size: r.size})
	}
	t.Batches = len(t.shown)
}

func (t *timeline) summary() string {
	return fmt.Sprintf("GPUs busy %s, batches of %.1f", percents(t.Busy), t.Mean)
}

func (t *timeline) table() [][]string {
	out := [][]string{{"gpu", "model", "size", "start_ms", "end_ms"}}
	for _, b := range t.shown {
		out = append(out, []string{fmt.Sprint(b.GPU), t.models[b.Model], fmt.Sprint(b.Size), precise(float64(b.Start) / 1e6), precise(float64(b.End) / 1e6)})
	}
	return out
}

func (t *timeline) pictures() []named {
	if t.Batches == 0 {
		return nil
	}
	boxes := slices.Clone(t.shown) // what reaches beyond the window is cut there
	for i := range boxes {
		boxes[i].Start, boxes[i].End = max(0, boxes[i].Start), min(mono.Time(window), boxes[i].End)
	}
	return []named{{"timeline", "Who had the GPU", plot.Size{W: 9, H: 1.4 + 0.4*float64(t.GPUs)}, plot.Timeline{
		Title: fmt.Sprintf("%s at %s requests/s", t.Workload, thousands(t.Rate)), GPUs: t.GPUs, Models: t.models, Batches: boxes, From: 0, To: mono.Time(window)}}}
}

func (t *timeline) text() string {
	return fmt.Sprintf("%s at %s requests/s. GPUs were busy %s of the time; batches had %.1f requests in the mean. The picture has %.0f ms of it: each box is a batch, with its size, in its model's colour.\n",
		t.Workload, thousands(t.Rate), percents(t.Busy), t.Mean, t.WindowMS)
}
