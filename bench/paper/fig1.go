package paper

import (
	"fmt"
	"strconv"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
)

// fig1: the sizes of batches.
func fig1(s *Session) error {
	all, err := distributions(s)
	if err != nil {
		return err
	}
	grid := plot.Grid{Cols: 2, Shared: true}
	var rows [][]string
	for i, k := range singles() {
		panel := plot.CDF{Title: fmt.Sprintf("%s, SLO %g ms", k.name(), k.workload.Models[0].SLO), Of: "batches", X: plot.Axis{Label: "batch size"}}
		for n := range all[i] {
			d := &all[i][n]
			panel.Series = append(panel.Series, plot.Samples{Name: d.name, Values: samples(d.batches(), 1)})
			rows = append(rows, sizesRow(k.name(), d))
		}
		grid.Panels = append(grid.Panels, panel)
		claimMedians(s, &k, all[i])
	}
	if err := s.PlotSized("fig1", plot.Size{W: 8, H: 3.6}, grid); err != nil {
		return err
	}
	s.Note("The curves, and the quantiles of the table, are over batches. The claims are judged by the median over requests, for section 5.3 speaks of the batches that the majority of requests runs in; the paper does not say what its figure counts, and large batches hold more requests.")
	return s.Table("fig1", []string{"model", "system", "offered r/s", "served r/s", "p10", "p25", "median", "p75", "p90", "median over requests", "mean"}, rows)
}

func sizesRow(model string, d *distribution) []string {
	row := []string{model, d.name, Number(d.rate, 0), Number(d.Served, 0)}
	for _, q := range []float64{0.1, 0.25, 0.5, 0.75, 0.9} {
		row = append(row, Number(quantile(d.batches(), 1, q), 0))
	}
	return append(row, strconv.Itoa(d.BatchP50), Number(d.BatchMean, 1))
}

// batches counts batches by size; a run counts requests by it.
func (d *distribution) batches() []int64 {
	out := make([]int64, len(d.Sizes))
	for b := 1; b < len(d.Sizes); b++ {
		out[b] = d.Sizes[b] / int64(b)
	}
	return out
}

// claimMedians judges by the batch that the median request runs in (sections 1
// and 5.3), and tells the median batch beside it.
func claimMedians(s *Session, k *single, runs []distribution) {
	largest, symphony := 0, 0
	for i := range runs {
		d := &runs[i]
		of := d.name
		if of == collapsed {
			of = Clockwork
		}
		if d.name == Symphony {
			symphony = d.BatchP50
		} else {
			largest = max(largest, d.BatchP50)
		}
		want := k.median[of]
		c := Claim{What: fmt.Sprintf("%s, %s: median batch over requests", k.name(), d.name), Paper: strconv.Itoa(want),
			Ours: fmt.Sprintf("%d (over batches %d)", d.BatchP50, sim.Percentile(d.batches(), 0.5)), Ratio: float64(d.BatchP50) / float64(want)}
		off := d.BatchP50 - want
		c.Holds = off == 0 || d.name == Symphony && off > 0 || d.name != Symphony && (off == 1 || off == -1)
		switch {
		case d.name == Clockwork && !c.Holds:
			c.Why = "at the goodput of a calm start; the paper's is that of the collapsed state"
		case d.name == Symphony && off > 0:
			c.Why = "larger than the paper's"
		case c.Holds && off != 0:
			c.Why = "within one of the paper's"
		case !c.Holds:
			c.Why = fmt.Sprintf("measured at %s r/s, its goodput here", Rate(d.rate))
		}
		s.Claim(c)
	}
	c := Claim{What: k.name() + ": Symphony runs the largest batches", Paper: "yes", Ours: fmt.Sprintf("median over requests %d, others at most %d", symphony, largest), Holds: symphony > largest}
	if symphony == largest {
		c.judge(Draw)
	}
	s.Claim(c)
}
