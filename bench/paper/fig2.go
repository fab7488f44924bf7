package paper

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/bench/plot"
)

// resnets are models like ResNet50 on a 1080Ti (Table 3), SLO 100 ms. The paper
// says "ResNet models" and gives no profile.
func resnets(models, gpus int) Workload {
	return Workload{Models: []Model{{Name: "ResNet50", Alpha: 2.050, Beta: 5.378, SLO: 100, Count: models}}, GPUs: gpus}
}

// fig2: what is served, and how busy the GPUs are, from no load to twice the
// peak. Twice, for two profiles that "ResNet models" may mean.
func fig2(s *Session) error {
	first := resnets(10, 24)
	second := Workload{Models: []Model{{Name: "ResNet50V2", Alpha: 1.409, Beta: 5.947, SLO: 100, Count: 10}}, GPUs: 24}
	s.Note("The paper gives no profile for its 10 ResNet models. ResNet50 on a 1080Ti (Table 3) is 2.050*b + 5.378 ms. ResNet50V2, 1.409*b + 5.947 ms, has its peak near the paper's 15,000 r/s and an axis up to 30,000 r/s, as its figure; so it is shown too.")
	for i, w := range []Workload{first, second} {
		name := "fig2"
		if i > 0 {
			name += "_" + w.Models[0].Name
		}
		if err := sweepLoad(s, name, w); err != nil {
			return err
		}
	}
	return nil
}

// loadSteps is how many tenths of the peak are offered.
const loadSteps = 20

// loads is one system's runs: [i] is offered i+1 tenths of Symphony's peak.
type loads map[string][]Measures

// sweepLoad offers a workload from a tenth of Symphony's peak to twice as much.
func sweepLoad(s *Session, name string, w Workload) error {
	systems := append(fourSystems(), SymphonyDefer)
	found, err := s.SearchEach(systems, []Workload{w}, true)
	if err != nil {
		return err
	}
	peaks, peak := found[0], found[0][0].Rate
	var jobs []RunJob
	for _, system := range systems {
		for i := 1; i <= loadSteps; i++ {
			jobs = append(jobs, s.Measure(system, w, peak*float64(i)/10))
		}
	}
	runs, err := s.Runs(jobs)
	if err != nil {
		return err
	}
	all := loads{}
	for k, system := range systems {
		all[system] = runs[k*loadSteps : (k+1)*loadSteps]
	}
	if err := s.PlotSized(name, plot.Size{W: 8, H: 3.8}, loadPicture(systems, all, peak)); err != nil {
		return err
	}
	model := w.Models[0].Name
	claimPeak(s, model, peak)
	claimFlatTop(s, model, all, peak)
	claimProportional(s, model, all)
	return loadTables(s, name, &w, systems, peaks, all)
}

func loadPicture(systems []string, all loads, peak float64) plot.Grid {
	served := plot.Lines{X: plot.Axis{Label: "offered load (requests/s)", Max: 2 * peak}, Y: plot.Axis{Label: "goodput (requests/s)"}}
	busy := plot.Lines{X: served.X, Y: plot.Axis{Label: "busy share of GPU time", Max: 1.05}}
	for _, system := range systems {
		a, b := plot.Series{Name: system, X: []float64{0}, Y: []float64{0}}, plot.Series{Name: system, X: []float64{0}, Y: []float64{0}}
		for _, m := range all[system] {
			a.X, a.Y = append(a.X, m.Offered), append(a.Y, m.Served)
			b.X, b.Y = append(b.X, m.Offered), append(b.Y, m.Busy)
		}
		served.Series, busy.Series = append(served.Series, a), append(busy.Series, b)
	}
	const ideal = "in proportion up to Symphony's peak"
	served.Series = append(served.Series, plot.Series{Name: ideal, X: []float64{0, peak}, Y: []float64{0, peak}, Dashed: true})
	busy.Series = append(busy.Series, plot.Series{Name: ideal, X: []float64{0, peak}, Y: []float64{0, 1}, Dashed: true})
	return plot.Grid{Cols: 2, Shared: true, Panels: []plot.Picture{served, busy}}
}

func claimPeak(s *Session, model string, peak float64) {
	c := Claim{What: model + ": Symphony's peak goodput", Paper: "about 15,000 r/s (3K is 20 %)", Ours: Rate(peak) + " r/s", Ratio: peak / 15000, Holds: math.Abs(peak/15000-1) <= 0.1}
	if !c.Holds {
		c.Why = "the paper's profile is not known"
	}
	s.Claim(c)
}

// claimFlatTop: section 3.5's goodput stability, and what section 5.4 says of
// the others.
func claimFlatTop(s *Session, model string, all loads, peak float64) {
	for _, at := range []int{15, 20} {
		m := all[Symphony][at-1]
		s.Claim(Claim{What: fmt.Sprintf("%s: Symphony serves at %.1f times its peak load", model, float64(at)/10), Paper: "its peak (flat top)",
			Ours: fmt.Sprintf("%s r/s, peak %s", Rate(m.Served), Rate(peak)), Ratio: m.Served / peak, Holds: m.Served >= 0.98*peak})
	}
	for _, c := range []struct {
		system string
		stable bool
		says   string
	}{{Nexus1FE, true, "flat"}, {Shepherd, false, "fluctuates, substantial loss"}, {Clockwork, false, "degrades as soon as it is overloaded"}} {
		most := 0.0
		for _, m := range all[c.system] {
			most = max(most, m.Served)
		}
		last := all[c.system][loadSteps-1].Served
		k := Claim{What: fmt.Sprintf("%s: %s serves at twice Symphony's peak load", model, c.system), Paper: c.says,
			Ours: fmt.Sprintf("%s r/s, %s at most", Rate(last), Rate(most)), Ratio: last / most}
		k.Holds = (k.Ratio >= 0.95) == c.stable
		s.Claim(k)
	}
}

// claimProportional: section 3.5's load-proportional GPU usage. The paper wants
// an idle share of (p-o)/p, so a busy share of o/p. That is what the whole deferral
// does: Symphony as it serves spends the idle time on latency.
func claimProportional(s *Session, model string, all loads) {
	worst, at := 0.0, 0.0
	for i := 1; i <= 9; i++ {
		if off := all[SymphonyDefer][i-1].Busy - float64(i)/10; math.Abs(off) > math.Abs(worst) {
			worst, at = off, float64(i)/10
		}
	}
	s.Claim(Claim{What: model + ": busy share of " + SymphonyDefer + " follows the load, 10 % to 90 % of the peak", Paper: "in proportion",
		Ours: fmt.Sprintf("within %.1f points, worst at %.0f %%", 100*math.Abs(worst), 100*at), Holds: math.Abs(worst) <= 0.05})
	for _, system := range fourSystems()[1:] {
		full := 2.0
		for i, m := range all[system] {
			if m.Busy > 0.95 {
				full = float64(i+1) / 10
				break
			}
		}
		low := all[system][1].Busy
		c := Claim{What: fmt.Sprintf("%s: busy share of %s at 0.2 of Symphony's peak load", model, system), Paper: "1 (at 3K r/s)", Ours: Number(low, 2), Ratio: low, Holds: low >= 0.9}
		if !c.Holds {
			c.Why = "batches of one or two run there, and how busy they keep a GPU depends on the profile"
		}
		s.Claim(c)
		s.Claim(Claim{What: fmt.Sprintf("%s: the GPUs of %s are busy in full (95 %%) before its peak goodput", model, system), Paper: "yes", Ours: fmt.Sprintf("from %.1f of Symphony's peak load on", full), Holds: full < 0.9})
	}
}

func loadTables(s *Session, name string, w *Workload, systems []string, peaks []GoodputResult, all loads) error {
	bounds, err := BoundCells(w)
	if err != nil {
		return err
	}
	var tops, rows [][]string
	for k, system := range systems {
		tops = append(tops, append([]string{system, Number(peaks[k].Rate, 0)}, bounds...))
		for i, m := range all[system] {
			rows = append(rows, []string{system, Number(float64(i+1)/10, 1), Number(m.Offered, 0), Number(m.Served, 0), Number(m.BadRate, 4), Number(m.Busy, 4), Number(m.BatchMean, 2)})
		}
	}
	if err := s.Table(name+"_goodput", append([]string{"system", "goodput r/s"}, BoundHeader()...), tops); err != nil {
		return err
	}
	return s.Table(name, []string{"system", "of Symphony's peak", "offered r/s", "served r/s", "bad rate", "busy share", "mean batch"}, rows)
}
