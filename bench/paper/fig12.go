package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
)

// fig12: how long requests wait until their batch starts.
func fig12(s *Session) error {
	all, err := distributions(s)
	if err != nil {
		return err
	}
	unit := sim.QueueUnit.Millis()
	grid := plot.Grid{Cols: 2, Shared: true}
	var rows [][]string
	for i, k := range singles() {
		slo := k.workload.Models[0].SLO
		panel := plot.CDF{Title: fmt.Sprintf("%s, SLO %g ms", k.name(), slo), Of: "requests", X: plot.Axis{Label: "queueing delay (ms)"},
			VLines: []plot.Ref{{At: slo / 2, Label: "SLO/2"}}}
		for _, d := range all[i] {
			panel.Series = append(panel.Series, plot.Samples{Name: d.name, Values: samples(d.QueueTime, unit)})
			row := []string{k.name(), d.name, Number(d.rate, 0)}
			for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 0.999} {
				row = append(row, Number(quantile(d.QueueTime, unit, q), 1))
			}
			rows = append(rows, row)
		}
		grid.Panels = append(grid.Panels, panel)
		claimDelays(s, k.name(), slo, all[i])
	}
	if err := s.PlotSized("fig12", plot.Size{W: 8, H: 3.6}, grid); err != nil {
		return err
	}
	return s.Table("fig12", []string{"model", "system", "offered r/s", "p10 ms", "median ms", "p90 ms", "p99 ms", "p99.9 ms"}, rows)
}

// claimDelays: section 5.3, "Queuing Delay".
func claimDelays(s *Session, model string, slo float64, runs []distribution) {
	find := func(name string) *distribution {
		for i := range runs {
			if runs[i].name == name {
				return &runs[i]
			}
		}
		panic("no run of " + name)
	}
	ours := find(Symphony)
	for _, name := range []string{Nexus1FE, Clockwork, collapsed} {
		d := find(name)
		median, tail := d.QueueP50/ours.QueueP50, d.QueueP99/ours.QueueP99
		s.Claim(Claim{What: fmt.Sprintf("%s: queueing delay of %s against Symphony's", model, name), Paper: "2 to 3 times",
			Ours:  fmt.Sprintf("median %.1f against %.1f ms: %.1f times; p99 %.1f against %.1f ms: %.1f times", d.QueueP50, ours.QueueP50, median, d.QueueP99, ours.QueueP99, tail),
			Holds: median >= 1.9, Why: "the paper does not say of which quantile; judged by the median"})
	}
	shepherd := find(Shepherd)
	near := shepherd.QueueP50 / ours.QueueP50
	s.Claim(Claim{What: model + ": Shepherd's queueing delay is comparable to Symphony's (median)", Paper: "yes",
		Ours: fmt.Sprintf("%.1f against %.1f ms", shepherd.QueueP50, ours.QueueP50), Ratio: near, Holds: near > 0.5 && near < 2})
	longest := quantile(find(Nexus1FE).QueueTime, sim.QueueUnit.Millis(), 0.999)
	s.Claim(Claim{What: model + ": longest queueing delay of Nexus (p99.9)", Paper: "about SLO/2",
		Ours: fmt.Sprintf("%.1f ms of %g", longest, slo), Ratio: longest / (slo / 2), Holds: longest >= 0.35*slo && longest <= 0.65*slo})
}
