package paper

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
)

// panel11 is one way of how requests come.
type panel11 struct {
	name, title          string
	popularity, arrivals string
	shape                float64
}

func panels11() []panel11 {
	return []panel11{
		{"equal-poisson", "equal popularity, Poisson", "", "poisson", 0},
		{"zipf-poisson", "Zipf 0.9, Poisson", "zipf:0.9", "poisson", 0},
		{"equal-gamma", "equal popularity, Gamma 0.05", "", "gamma", 0.05},
		{"zipf-gamma", "Zipf 0.9, Gamma 0.05", "zipf:0.9", "gamma", 0.05},
	}
}

// systems11: the first is ours, the two eager ones are not in the paper's figure.
func systems11() []string {
	return []string{Symphony, Eager, EagerTarget, Clockwork, Shepherd, Nexus1FE, Nexus8FE}
}

// fig11: all systems over the SLO, by popularity and burstiness; 20 models like
// ResNet50 on 32 GPUs (section 5.3). Bursty arrivals are simulated for longer:
// with shape 0.05 twenty requests come together, so a p99 has a twentieth of
// the draws.
func fig11(s *Session) error {
	slos := Pick(s, []float64{15, 25, 50, 100}, []float64{15, 20, 25, 30, 40, 50, 60, 80, 100})
	systems := systems11()
	var jobs []GoodputJob
	for _, p := range panels11() {
		seconds := Pick(s, 3.0, 15.0)
		if p.shape > 0 {
			seconds *= 3
		}
		for _, slo := range slos {
			for _, system := range systems {
				jobs = append(jobs, GoodputJob{System: system, Workload: p.workload(slo), Grouped: true, Seconds: seconds,
					Seeds: s.seeds(3), Tolerance: Pick(s, 0.02, 0.005)})
			}
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	var panels []plot.Picture
	var rows [][]string
	for _, p := range panels11() {
		series := make([]plot.Series, len(systems))
		var bySLO [][]GoodputResult
		for _, slo := range slos {
			w := p.workload(slo)
			fluid, err := w.fluidCell()
			if err != nil {
				return err
			}
			row := []string{p.name, Number(slo, 0)}
			for k, system := range systems {
				series[k].Name = system
				series[k].X, series[k].Y = append(series[k].X, slo), append(series[k].Y, found[k].Rate)
				row = append(row, Rate(found[k].Rate))
			}
			rows = append(rows, append(row, fluid))
			bySLO, found = append(bySLO, found[:len(systems)]), found[len(systems):]
		}
		s.fig11Claims(&p, slos, bySLO)
		panels = append(panels, plot.Lines{Title: p.title, X: plot.Axis{Label: "SLO (ms)"}, Y: plot.Axis{Label: "goodput (requests/s)"}, Series: series, Markers: true})
	}
	s.Note("The models have Table 2's profile of ResNet50 (1.053 b + 5.072 ms); the paper says only that theirs are similar to it.")
	header := append(append([]string{"workload", "SLO (ms)"}, systems...), "fluid bound")
	if err := s.Table("fig11", header, rows); err != nil {
		return err
	}
	return s.PlotSized("fig11", plot.Size{W: 9, H: 7}, plot.Grid{Title: "20 models like ResNet50 on 32 GPUs", Cols: 2, Shared: true, Panels: panels})
}

func (p *panel11) workload(slo float64) Workload {
	return Workload{GPUs: 32, Models: []Model{resnetLike(slo, 20)}, Popularity: p.popularity, Arrivals: p.arrivals, Shape: p.shape}
}

// tightSLO is the greatest SLO that counts as tight, ms. Staggered batches of
// 16 fit into it.
const tightSLO = 25

// fig11Claims: found are the results by SLO, in the order of systems11.
func (s *Session) fig11Claims(p *panel11, slos []float64, found [][]GoodputResult) {
	var tight, every []Verdict
	gains, lost, draws := "", "", 0
	for i, slo := range slos {
		var all []interval
		for k := range found[i] {
			all = append(all, found[i][k].interval())
		}
		rival, at := best(all[1:])
		if all[0].mean == 0 && rival.mean == 0 {
			continue // nobody serves any rate: a draw that tells nothing
		}
		v := all[0].against(rival)
		every = append(every, v)
		switch v {
		case Draw:
			draws++
		case no:
			lost += fmt.Sprintf("; behind %s at %g ms (%s of it)", systems11()[1+at], slo, Number(all[0].mean/rival.mean, 3))
		}
		if slo <= tightSLO {
			rival, _ = best(all[3:])
			tight = append(tight, all[0].times(1.1, rival))
			gains += fmt.Sprintf(", %s at %g ms", Number(all[0].mean/max(1, rival.mean), 2), slo)
		}
	}
	c := Claim{What: p.title + ": benefit at tight SLOs against the best of Clockwork, Nexus and Shepherd", Paper: "significant", Ours: strings.TrimPrefix(gains, ", ") + " (times the best)"}
	c.judge(worst(tight...))
	if c.Why = drawn(c.Short, "significant: 10 % at least"); len(tight) == 0 {
		c.judge(no)
		c.Ours = "no system serves any rate"
	}
	s.Claim(c)
	c = Claim{What: p.title + ": Symphony first at every SLO, eager with either drop policy among the rivals", Paper: "not compared with eager",
		Ours: fmt.Sprintf("%d SLOs, draws at %d%s", len(every), draws, lost)}
	c.judge(worst(every...))
	c.Why = drawn(c.Short, "")
	s.Claim(c)
	s.looseClaims11(p, found[len(found)-1])
}

// looseClaims11: at the loosest SLO.
func (s *Session) looseClaims11(p *panel11, found []GoodputResult) {
	ours, least, at := found[0].interval(), 2.0, ""
	for k, name := range systems11() {
		isNexus := name == Nexus1FE || name == Nexus8FE
		if share := found[k].Rate / max(1, ours.mean); share < least && !(isNexus && p.shape > 0) {
			least, at = share, name
		}
	}
	s.Claim(Claim{What: p.title + ": all systems are near each other at the loosest SLO", Paper: "relatively good schedules", Ours: fmt.Sprintf("the last, %s, has %s of Symphony's", at, Percent(least)),
		Holds: least >= 0.8, Why: "near: 80 %; with bursts Nexus is not asked for"})
	if p.shape > 0 {
		nexus, _ := best([]interval{found[5].interval(), found[6].interval()})
		c := Claim{What: p.title + ": the better Nexus against Symphony at the loosest SLO", Paper: "does not work well with bursts", Ours: Percent(nexus.mean / max(1, ours.mean))}
		c.judge(ours.times(1/0.8, nexus))
		c.Why = drawn(c.Short, "not well: below 80 %")
		s.Claim(c)
	}
}
