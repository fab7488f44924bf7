package peers

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
)

// Picture is one case under one arrival process; false: nothing was measured.
func (r *Result) Picture(c Case, arrivals string) (plot.Picture, bool) {
	panels := []struct {
		title, label string
		log          bool
		of           func(*Point) float64
	}{
		{"In time", "requests/s", false, func(p *Point) float64 { return p.InTime }},
		{"Bad share", "share of all requests", false, func(p *Point) float64 { return p.BadRate }},
		{"Median latency", "p50 (ms)", false, func(p *Point) float64 { return p.P50 }},
		{"Tail latency", "p99 (ms)", true, func(p *Point) float64 { return p.P99 }},
	}
	labels, rates := r.axes(c, arrivals)
	labels = r.answered(c, arrivals, labels, rates)
	if len(labels) == 0 {
		return nil, false
	}
	g := plot.Grid{Title: fmt.Sprintf("%s on one device, %s arrivals", models(len(c.Models)), arrivals), Cols: 2, Shared: len(labels) > 1}
	for i, panel := range panels {
		l := plot.Lines{Title: panel.title, X: plot.Axis{Label: "offered (requests/s)"}, Y: plot.Axis{Label: panel.label, Log: panel.log}, Markers: true}
		for _, label := range labels {
			s := plot.Series{Name: label}
			for _, rate := range rates {
				if p := r.point(c, arrivals, label, rate); p != nil && (i < 2 || p.P50 > 0) {
					s.X, s.Y = append(s.X, rate), append(s.Y, panel.of(p))
				}
			}
			l.Series = append(l.Series, s)
		}
		g.Panels = append(g.Panels, l)
	}
	return g, true
}

// answered are the labels with an output at some rate: the others have no latency.
func (r *Result) answered(c Case, arrivals string, labels []string, rates []float64) []string {
	var out []string
	for _, l := range labels {
		for _, rate := range rates {
			if p := r.point(c, arrivals, l, rate); p != nil && p.P50 > 0 {
				out = append(out, l)
				break
			}
		}
	}
	return out
}

func models(n int) string {
	if n == 1 {
		return "One model"
	}
	return fmt.Sprintf("%d models", n)
}
