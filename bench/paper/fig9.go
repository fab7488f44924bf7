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
	paper     string // Symphony against the baselines
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
		{"1080Ti", "mixed", ti, "2.0 to 2.4"},
		{"1080Ti", "strong", part(ti, strong), "3.5"},
		{"1080Ti", "weak", part(ti, weak), "1.23"},
		{"A100", "mixed", a100, "2.0 to 2.4"},
		{"A100", "strong", part(a100, strong), "5.7"},
		{"A100", "weak", part(a100, weak), "1.10"},
	}
}

// fig9: goodput of mixed models on 64 GPUs, both zoos, all systems and both
// bounds (section 5.1). Equal rates, each model judged alone, no network: the
// paper's scheduler-only setting (s).
func fig9(s *Session) error {
	const gpus = 64
	systems := []string{Symphony, Clockwork, Nexus1FE, Nexus8FE, Shepherd, Eager, EagerTarget}
	mixes := mixes9()
	var jobs []GoodputJob
	for _, m := range mixes {
		for _, system := range systems {
			jobs = append(jobs, GoodputJob{System: system, Workload: Workload{Models: m.models, GPUs: gpus},
				Seeds: Pick(s, []uint64{1}, []uint64{1, 2, 3}), Seconds: Pick(s, 6.0, 30.0), Tolerance: Pick(s, 0.01, 0.002)})
		}
	}
	found, err := s.Goodputs(jobs)
	if err != nil {
		return err
	}
	names := []string{Symphony, Clockwork, Nexus1FE, Nexus8FE, Shepherd, "eager (better of both)", "fluid bound", "staggered bound"}
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
		for _, g := range at[:5] {
			values[i] = append(values[i], g.Rate)
		}
		values[i] = append(values[i], max(at[5].Rate, at[6].Rate), fluid, staggered)
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
	s.fig9Claims(mixes, values)
	return s.PlotSized("fig9", plot.Size{W: 9, H: 7}, plot.Grid{Title: "Mixed models on 64 GPUs", Shared: true, Panels: []plot.Picture{
		bars9(mixes[:3], names, values[:3]), bars9(mixes[3:], names, values[3:])}})
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

// fig9Claims: values are in the order of fig9's names.
func (s *Session) fig9Claims(mixes []mix9, values [][]float64) {
	for i, m := range mixes {
		v, what := values[i], m.zoo+" "+m.name
		rival := highest(v[1:5])
		s.Claim(Claim{What: what + ": Symphony against the best of Clockwork, Nexus and Shepherd", Paper: m.paper + " times the baselines",
			Ours: Number(v[0]/rival, 2) + " times the best", Holds: v[0] >= rival,
			Why: "holds: Symphony's bar is the highest; the paper's Clockwork is the collapsed one (see table2)"})
		s.Claim(Claim{What: what + ": Symphony against the better eager scheduler", Paper: "not compared", Ours: Number(v[0]/v[5], 3), Holds: v[0] >= v[5]})
		s.Claim(Claim{What: what + ": loss of Nexus with eight frontends against one", Paper: "11 % to 45 %", Ours: Percent(1 - v[3]/v[2]), Holds: v[3] < v[2]})
		if m.zoo == "A100" && m.name == "mixed" {
			s.Claim(Claim{What: what + ": share of the fluid bound", Paper: "not computed", Ours: Number(v[0]/v[6], 3), Holds: v[0] >= 0.93*v[6], Why: "at least 0.93"})
		}
	}
}
