package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/zoo"
)

// mix9 is one group of bars: a part of a zoo, and what the paper says of it.
type mix9 struct {
	zoo, name string
	models    []Model
	paper     string  // Symphony against the baselines
	least     float64 // the same, the lower end
}

// mixes9: strong batching is beta/alpha > 2, weak is below (Figure 10's
// caption); no model has just 2.
func mixes9() []mix9 {
	part := func(models []Model, keep func(strength float64) bool) []Model {
		var out []Model
		for _, m := range models {
			if keep(m.Beta / m.Alpha) {
				out = append(out, m)
			}
		}
		return out
	}
	strong := func(strength float64) bool { return strength > 2 }
	weak := func(strength float64) bool { return strength < 2 }
	ti, a100 := ModelsOf(zoo.GTX1080Ti()), ModelsOf(zoo.A100())
	return []mix9{
		{"1080Ti", "mixed", ti, "2.0 to 2.4", 2},
		{"1080Ti", "strong", part(ti, strong), "3.5", 3.5},
		{"1080Ti", "weak", part(ti, weak), "1.23", 1.23},
		{"A100", "mixed", a100, "2.0 to 2.4", 2},
		{"A100", "strong", part(a100, strong), "5.7", 5.7},
		{"A100", "weak", part(a100, weak), "1.10", 1.1},
	}
}

// fig9: goodput of mixed models on 64 GPUs, both zoos, all systems and both
// bounds (section 5.1). Equal rates, each model judged alone, no network: the
// paper's scheduler-only setting (s). Algorithm 1 to the letter stands beside
// ours; it is no rival.
func fig9(s *Session) error {
	const gpus = 64
	systems := systems9()
	mixes := mixes9()
	var jobs []GoodputJob
	for _, m := range mixes {
		for _, system := range systems {
			jobs = append(jobs, GoodputJob{System: system, Workload: Workload{Models: m.models, GPUs: gpus},
				Seeds: s.seeds(3), Seconds: Pick(s, 6.0, 30.0), Tolerance: Pick(s, 0.01, 0.002)})
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	names := []string{Symphony, Algorithm1, Clockwork, Nexus1FE, Nexus8FE, Shepherd, "eager (better of both)", "fluid bound"}
	values := make([][]float64, len(mixes)) // [mix][name]
	var rows [][]string
	for i, m := range mixes {
		at := found[i*len(systems):][:len(systems)]
		fluid, err := (&Workload{Models: m.models, GPUs: gpus}).Fluid()
		if err != nil {
			return err
		}
		staggered, err := staggeredMix(m.models, gpus)
		if err != nil {
			return err
		}
		for _, g := range at[:6] {
			values[i] = append(values[i], g.Rate)
		}
		values[i] = append(values[i], max(at[6].Rate, at[7].Rate), fluid)
		s.fig9Claims(&m, at, fluid)
		row := []string{m.zoo, m.name, Number(float64(len(m.models)), 0)}
		for _, g := range at {
			row = append(row, Rate(g.Rate))
		}
		rows = append(rows, append(row, Rate(fluid), Rate(staggered)))
	}
	header := append(append([]string{"GPU", "models", "count"}, systems...), "fluid bound", "staggered bound")
	if err := s.Table("fig9", header, rows); err != nil {
		return err
	}
	return s.PlotSized("fig9", plot.Size{W: 9, H: 7}, plot.Grid{Title: "Mixed models on 64 GPUs", Shared: true, Panels: []plot.Picture{
		bars9(mixes[:3], names, values[:3]), bars9(mixes[3:], names, values[3:])}})
}

func systems9() []string {
	return []string{Symphony, Algorithm1, Clockwork, Nexus1FE, Nexus8FE, Shepherd, Eager, EagerTarget}
}

// staggeredMix is the goodput of a mix whose models all run the batches of
// section 3.3, as if each had all GPUs and rate enough to fill them. The fluid
// bound lies below: it knows how long a batch takes to gather.
func staggeredMix(models []Model, gpus int) (float64, error) {
	need := 0.0 // GPU seconds for a request of each
	for i := range models {
		w := Workload{Models: models[i : i+1], GPUs: gpus}
		_, rate, err := w.Staggered()
		if err != nil {
			return 0, err
		}
		need += float64(gpus) / rate
	}
	return float64(gpus) * float64(len(models)) / need, nil
}

func bars9(mixes []mix9, names []string, values [][]float64) plot.Bars {
	b := plot.Bars{Title: mixes[0].zoo, Y: plot.Axis{Label: "goodput (requests/s)"}}
	for _, m := range mixes {
		b.Groups = append(b.Groups, fmt.Sprintf("%s (%d models)", m.name, len(m.models)))
	}
	for k, name := range names {
		var v []float64
		for i := range mixes {
			v = append(v, values[i][k])
		}
		b.Series = append(b.Series, plot.BarSeries{Name: name, Bars: plot.Values(v...)})
	}
	return b
}

// fig9Claims: found are the results in the order of systems9.
func (s *Session) fig9Claims(m *mix9, found []GoodputResult, fluid float64) {
	what := m.zoo + " " + m.name
	var all []interval
	for i := range found {
		all = append(all, found[i].interval())
	}
	ours := all[0]
	rival, at := best(all[2:6])
	c := Claim{What: what + ": Symphony against the best of Clockwork, Nexus and Shepherd", Paper: m.paper + " times the baselines",
		Ours: fmt.Sprintf("%s times the best (%s)", Number(ours.mean/rival.mean, 2), systems9()[2+at]), Ratio: ours.mean / rival.mean / m.least}
	c.judge(ours.times(m.least, rival))
	if c.Why = drawn(c.Short, ""); c.Short == Weaker {
		c.Why = "Symphony's bar is the highest; the paper's Clockwork is the collapsed one (see table2)"
	}
	s.Claim(c)
	eager, which := best(all[6:])
	claimAgainst(s, what+": Symphony above the better eager scheduler", "not compared", ours, eager, systems9()[6+which])
	claimAgainst(s, what+": Symphony above the paper's algorithm", "not compared: a version of ours", ours, all[1], Algorithm1)
	loss := 1 - all[4].mean/all[3].mean
	c = Claim{What: what + ": loss of Nexus with eight frontends against one", Paper: "11 % to 45 %", Ours: Percent(loss), Holds: loss >= 0.11 && loss <= 0.45}
	switch {
	case c.Holds:
	case loss > 0.45:
		c.Why = "more than in the paper: the baseline with eight frontends may be weaker here"
	case all[3].above(all[4]):
		c.Short, c.Why = Weaker, "where batches gain little, frontends that split the load thinly cost little"
	case !all[4].above(all[3]):
		c.Short, c.Why = Draw, overlap
	}
	s.Claim(c)
	if m.zoo == "A100" && m.name == "mixed" {
		s.Claim(Claim{What: what + ": share of the fluid bound", Paper: "not computed", Ours: Number(ours.mean/fluid, 3), Holds: ours.mean >= 0.93*fluid, Why: "at least 0.93"})
	}
}
