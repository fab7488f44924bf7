package paper

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
)

// tables7 writes all configurations, and those below 0.99 of the best. The
// first n points are of the 5,880, the others are the tight ones.
func (s *Session) tables7(points []point7, results []result7, again map[int]bool, n int) error {
	header := []string{"set", "setup", "models", "GPUs", "ratio", "SLO (ms; mixed: times the zoo's)", "Gamma shape", "Symphony (r/s)", "eager (r/s)",
		"eager target (r/s)", "best timeout (r/s; empty: not above eager)", "its k (% of the SLO)", "to the best", "to eager target", "measured"}
	var rows, low [][]string
	order := make([]int, len(points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(results[a].againstBest(), results[b].againstBest()) })
	for _, i := range order {
		p, r := points[i], &results[i]
		set, times, timeout, k := "5,880", "once", "", ""
		if i >= n {
			set = "tight"
		}
		if again[i] {
			times = "again"
		}
		if r.Timeout > 0 {
			timeout, k = Number(r.Timeout, 1), Number(r.TimeoutK, 0)
		}
		row := []string{set, p.Setup, Number(float64(p.Models), 0), Number(float64(p.gpus()), 0), Number(p.Ratio, 1), Number(p.SLO, 0), Number(p.Shape, 1),
			Number(r.Symphony, 1), Number(r.Eager, 1), Number(r.EagerTarget, 1), timeout, k, Number(r.againstBest(), 4), Number(r.againstSame(), 4), times}
		rows = append(rows, row)
		if r.againstBest() < 0.99 {
			low = append(low, row)
		}
	}
	if err := s.Table("fig7", header, rows); err != nil {
		return err
	}
	return s.Table("fig7-below", header, low)
}

// share of the results for which holds does.
func share7(results []result7, holds func(r *result7) bool) float64 {
	n := 0
	for i := range results {
		if holds(&results[i]) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(results)))
}

// lowest7 is the least ratio, and where.
func lowest7(points []point7, results []result7, of func(*result7) float64) (float64, string) {
	low, at := float64(ratioMax), ""
	for i := range results {
		if v := of(&results[i]); v < low {
			low, at = v, points[i].String()
		}
	}
	return low, at
}

// atLeast7 holds for results whose ratio is v or more.
func atLeast7(of func(*result7) float64, v float64) func(*result7) bool {
	return func(r *result7) bool { return of(r) >= v }
}

func (s *Session) claims7(points []point7, results []result7) {
	best, same := (*result7).againstBest, (*result7).againstSame
	most := share7(results, atLeast7(best, 0.99))
	s.Claim(Claim{What: "at least 0.99 of the best baseline in 99 % of the configurations", Paper: "not compared", Ours: Percent(most), Holds: most >= 0.99})
	low, at := lowest7(points, results, best)
	s.Claim(Claim{What: "never below 0.97 of the best baseline", Paper: "not compared", Ours: Number(low, 3), Holds: low >= 0.97, Why: "lowest: " + at})
	almost := share7(results, atLeast7(same, 0.95))
	s.Claim(Claim{What: "(d) above 0.95 of eager with the same drop policy", Paper: "almost all cases", Ours: Percent(almost), Holds: almost >= 0.99, Why: "almost: 99 %"})
	half := share7(results, atLeast7(same, 1.5))
	s.Claim(Claim{What: "(d) 1.5 times eager with the same drop policy, or more", Paper: "16 % of the cases", Ours: Percent(half), Ratio: half / 0.16, Holds: half >= 0.16})
	double := share7(results, atLeast7(same, 2))
	s.Claim(Claim{What: "(d) twice eager with the same drop policy, or more", Paper: "extreme cases", Ours: Percent(double), Holds: double > 0})
	headHalf := share7(results, func(r *result7) bool { return ratio(r.Symphony, r.Eager) >= 1.5 })
	s.Claim(Claim{What: "(d) 1.5 times eager that drops late, or more", Paper: "16 % of the cases, if it is this one", Ours: Percent(headHalf), Ratio: headHalf / 0.16, Holds: headHalf >= 0.16,
		Why: "the paper does not name its eager scheduler's drop policy"})
	s.rangeClaim7("(a) mixed, against eager with the same drop policy", "1.35 to 2.02", 1.35, points, results, func(p point7) bool { return p.Setup == mixed7 })
	s.rangeClaim7("(b) DenseNet121, SLO 30 ms, against eager with the same drop policy", "1.34 to 3.34", 1.34, points, results, func(p point7) bool { return p.Setup == "DenseNet121" && p.SLO == 30 })
	s.rangeClaim7("(c) BERT, against eager with the same drop policy", "about 1", 0.95, points, results, func(p point7) bool { return p.Setup == "BERT" })
}

// tightClaims7 holds Symphony to the same where the reading of Table 1 does
// not.
func (s *Session) tightClaims7(points []point7, results []result7) {
	best := (*result7).againstBest
	most := share7(results, atLeast7(best, 0.99))
	s.Claim(Claim{What: "tight pairs, SLO below 2 l(2): at least 0.99 of the best baseline in 99 % of them", Paper: "perhaps not measured",
		Ours: fmt.Sprintf("%s of %d", Percent(most), len(results)), Holds: most >= 0.99})
	low, at := lowest7(points, results, best)
	s.Claim(Claim{What: "tight pairs: never below 0.97 of the best baseline", Paper: "perhaps not measured", Ours: Number(low, 3), Holds: low >= 0.97, Why: "lowest: " + at})
}

// rangeClaim7 compares the range of the gain with the paper's, whose lower end
// must be reached everywhere.
func (s *Session) rangeClaim7(what, paper string, least float64, points []point7, results []result7, in func(point7) bool) {
	values := pick7(points, results, in, (*result7).againstSame)
	if len(values) == 0 {
		return // a quick sample may have none
	}
	slices.Sort(values)
	low, high := values[0], values[len(values)-1]
	s.Claim(Claim{What: what, Paper: paper, Ours: fmt.Sprintf("%s to %s, median %s, of %d", Number(low, 2), Number(high, 2), Number(values[len(values)/2], 2), len(values)),
		Ratio: low / least, Holds: low >= least, Why: fmt.Sprintf("holds: at least %s everywhere", Number(least, 2))})
}

func pick7(points []point7, results []result7, in func(point7) bool, of func(*result7) float64) []float64 {
	var out []float64
	for i, p := range points {
		if in(p) {
			out = append(out, of(&results[i]))
		}
	}
	return out
}

// What is beyond these lies on the end of the x axis.
const shownMin, shownMax = 0.8, 4

// plots7 draws Figure 7, and the same against the best baseline.
func (s *Session) plots7(points []point7, results []result7) error {
	type curve struct {
		name string
		in   func(point7) bool
	}
	dense := func(slo, from, to float64) curve {
		return curve{fmt.Sprintf("SLO %g ms, ratio %g to %g", slo, from, to), func(p point7) bool {
			return p.Setup == "DenseNet121" && p.SLO == slo && p.Ratio >= from && p.Ratio <= to
		}}
	}
	of := func(setup string, slo float64, name string) curve {
		return curve{name, func(p point7) bool { return p.Setup == setup && p.SLO == slo }}
	}
	panels := []struct {
		title  string
		curves []curve
	}{
		{"(a) mixed", []curve{of(mixed7, 1, "the zoo's SLOs"), of(mixed7, 2, "twice these")}},
		{"(b) DenseNet121", []curve{dense(30, 1, 2), dense(30, 2.5, 4), dense(50, 1, 2), dense(50, 2.5, 4)}},
		{"(c) BERT", []curve{of("BERT", 30, "SLO 30 ms"), of("BERT", 40, "SLO 40 ms"), of("BERT", 50, "SLO 50 ms")}},
	}
	var grid plot.Grid
	for _, p := range panels {
		c := cdf7(p.title, "relative to eager, same drop policy")
		for _, v := range p.curves {
			add7(&c, v.name, pick7(points, results, v.in, (*result7).againstSame))
		}
		if len(c.Series) > 0 {
			grid.Panels = append(grid.Panels, c)
		}
	}
	every := func(point7) bool { return true }
	c := cdf7("(d) all", "relative to eager")
	add7(&c, "eager, same drop policy", pick7(points, results, every, (*result7).againstSame))
	add7(&c, "eager, drops late", pick7(points, results, every, func(r *result7) float64 { return ratio(r.Symphony, r.Eager) }))
	grid.Panels = append(grid.Panels, c)
	sameAxis7(grid.Panels)
	grid.Title, grid.Cols = "Symphony's goodput relative to eager scheduling", 2
	if err := s.PlotSized("fig7", plot.Size{W: 9, H: 7}, grid); err != nil {
		return err
	}
	c = cdf7("Symphony against the best baseline of each configuration", "goodput relative to the best baseline")
	for _, setup := range append(models7(), mixed7) {
		add7(&c, setup, pick7(points, results, func(p point7) bool { return p.Setup == setup }, (*result7).againstBest))
	}
	return s.Plot("fig7-best", c)
}

func cdf7(title, label string) plot.CDF {
	return plot.CDF{Title: title, X: plot.Axis{Label: label}, Of: "configurations", VLines: []plot.Ref{{At: 1}}}
}

// sameAxis7 gives all panels one range, or noise would look like a gain in
// those where nothing else is.
func sameAxis7(panels []plot.Picture) {
	low, high := 0.9, 1.5
	for _, p := range panels {
		for _, l := range p.(plot.CDF).Series {
			low, high = min(low, slices.Min(l.Values)), max(high, slices.Max(l.Values))
		}
	}
	for i, p := range panels {
		c := p.(plot.CDF)
		c.X.Min, c.X.Max = low, high
		panels[i] = c
	}
}

// add7 adds a curve, unless it has no samples.
func add7(c *plot.CDF, name string, values []float64) {
	if len(values) == 0 {
		return
	}
	for i, v := range values {
		values[i] = min(shownMax, max(shownMin, v))
	}
	c.Series = append(c.Series, plot.Samples{Name: name, Values: values})
}
