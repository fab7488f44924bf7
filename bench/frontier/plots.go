package frontier

import (
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
)

// draw makes the two pictures of a workload.
func (r *Result) draw(w *Workload, to report.Folder) error {
	if err := plot.Write(to.Plot(w.Name+"-load"), plot.Size{W: 9, H: 7}, r.byLoad(w)); err != nil {
		return err
	}
	if !w.scales() {
		return nil
	}
	return plot.Write(to.Plot(w.Name+"-frontier"), plot.Size{W: 8.5, H: 4.2}, r.frontier(w))
}

// scales tells whether there are GPUs to be spared.
func (w *Workload) scales() bool { return w.GPUs > 1 }

// shown are the rules of the pictures by load, under names that tell them apart by colour. The
// first lie on top: eager dispatch is dashed, so that Symphony is seen where the two coincide.
func shown() []Rule {
	return []Rule{
		{eagerTarget, eagerTarget}, {"timeout/target:0.2", "timeout/target:0.2"}, {"Symphony, headroom all", headroomAll},
		{"Symphony, headroom 0.25", "headroom 0.25"}, {"full deferral", "symphony/defer"},
	}
}

const eagerTarget = "eager/target"

// byLoad is times and GPUs against the load.
func (r *Result) byLoad(w *Workload) plot.Picture {
	panel := func(title, label string, value func(p *Point) float64) plot.Lines {
		l := plot.Lines{Title: title, X: plot.Axis{Label: "offered load (% of the highest goodput)"}, Y: plot.Axis{Label: label}, Markers: true}
		for _, rule := range shown() {
			s := plot.Series{Name: rule.Name, Dashed: rule.Policy == eagerTarget}
			for _, p := range r.rows(w.Name, rule.Policy, false) {
				s.X, s.Y = append(s.X, 100*p.Load), append(s.Y, value(p))
			}
			l.Series = append(l.Series, s)
		}
		return l
	}
	return plot.Grid{Title: w.Title, Cols: 2, Shared: true, Panels: []plot.Picture{
		panel("Queue, median", "ms", func(p *Point) float64 { return p.QueueP50 }),
		panel("Queue, 99th percentile", "ms", func(p *Point) float64 { return p.QueueP99 }),
		panel("Latency, 99th percentile", "ms", func(p *Point) float64 { return p.LatencyP99 }),
		panel("GPUs that carry 99 % of the work", "GPUs", func(p *Point) float64 { return float64(p.GPUs) }),
	}}
}

// frontier is the queue against the GPUs in use: one curve for each of some loads, from full
// deferral to all the GPUs there are, and eager dispatch beside it.
func (r *Result) frontier(w *Workload) plot.Picture {
	panel := func(title string, value func(p *Point) float64) plot.Lines {
		l := plot.Lines{Title: title, Markers: true, X: plot.Axis{Label: fmt.Sprintf("GPUs in use, of %d", w.GPUs), Max: 1.04 * float64(w.GPUs)}}
		for i, at := range r.curves(w) {
			l.Series = append(l.Series, r.curve(w, at, i == 0, value)...)
		}
		top := 1.0
		for _, s := range l.Series {
			top = max(top, slices.Max(s.Y))
		}
		l.Y = plot.Axis{Label: "time in the queue (ms)", Max: 1.15 * top} // room for the labels
		return l
	}
	return plot.Grid{Title: w.Title, Cols: 2, Shared: true, Panels: []plot.Picture{
		panel("Median", func(p *Point) float64 { return p.QueueP50 }),
		panel("99th percentile", func(p *Point) float64 { return p.QueueP99 }),
	}}
}

// curves are the loads that the frontier shows, as their first points.
func (r *Result) curves(w *Workload) []*Point {
	want, fixed := []float64{0.1, 0.25, 0.5, 0.8}, false
	if w.Rates != nil {
		want, fixed = []float64{1600, 4800, 9600, 14400}, true
	}
	var out []*Point
	for _, p := range r.rows(w.Name, headroomAll, fixed) {
		if slices.Contains(want, p.Load) || slices.Contains(want, p.Rate) {
			out = append(out, p)
		}
	}
	if out == nil { // of a short run
		out = r.rows(w.Name, headroomAll, false)
	}
	return out
}

// curve is one load's: ours by headroom, and eager dispatch as a hollow mark where it is another
// point than ours with all GPUs.
func (r *Result) curve(w *Workload, at *Point, labelled bool, value func(p *Point) float64) []plot.Series {
	name := fmt.Sprintf("%s requests/s (%.0f %%)", rate(at.Rate), 100*at.Load)
	ours, eager := plot.Series{Name: name}, plot.Series{Name: name + ", eager", Of: name, Points: true}
	add := func(s *plot.Series, rule, label string) {
		if !labelled {
			label = ""
		}
		p := r.at(w, rule, at)
		s.X, s.Y, s.Labels = append(s.X, float64(p.GPUs)), append(s.Y, value(p)), append(s.Labels, label)
	}
	add(&ours, "headroom 0", "headroom 0")
	add(&ours, "headroom 0.1", "0.1")
	add(&ours, "headroom 0.25", "0.25")
	add(&ours, "headroom 0.5", "0.5")
	if r.coincide(w, at) {
		add(&ours, headroomAll, "all, and eager")
		return []plot.Series{ours}
	}
	add(&ours, headroomAll, "all")
	add(&eager, eagerTarget, "eager")
	return []plot.Series{eager, ours}
}

// coincide tells whether eager dispatch is what ours comes to with all GPUs.
func (r *Result) coincide(w *Workload, at *Point) bool {
	a, b := r.at(w, headroomAll, at), r.at(w, eagerTarget, at)
	return max(a.GPUs-b.GPUs, b.GPUs-a.GPUs) <= 1 && math.Abs(a.QueueP50-b.QueueP50) < 0.3 && math.Abs(a.QueueP99-b.QueueP99) < 1
}

// at is a rule's point at the same rate.
func (r *Result) at(w *Workload, rule string, same *Point) *Point {
	for _, p := range r.rows(w.Name, rule, same.Fixed) {
		if p.Rate == same.Rate {
			return p
		}
	}
	panic("frontier: no point of " + rule) // each load has each rule: a bug
}
