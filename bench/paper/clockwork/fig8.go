package clockwork

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Section 6.5: 61 varieties, 66 copies of each.
const (
	copies8 = 66
	rate8   = 4860.6
)

// job8 is a run of the synthetic trace. With Errors, loads and executions are as far off
// their profiles as Figure 9 has it.
type job8 struct {
	GPUs          int
	Mapping       workload.Mapping
	Rate          float64 // requests/s
	SLO           float64 // ms
	Errors        bool
	Warmup, Count float64 // s
	Seed          uint64
}

// found8 is a series by the minute, with the run as a whole.
type found8 struct {
	Series        Series
	Unique        []int // models with a cold request
	Busy, Copying []float64
	All           Whole
}

func (j job8) run(stop func() bool) (f found8, err error) {
	models := varieties(copies8, mono.FromMillis(j.SLO))
	source, err := workload.NewMAF(workload.MAFConfig{Models: len(models), Mapping: j.Mapping, Rate: j.Rate, Seed: j.Seed})
	if err != nil {
		return f, err
	}
	cfg := cluster(models, j.GPUs, source, mono.FromSeconds(j.Warmup), mono.FromSeconds(j.Count), j.Seed)
	if j.Errors {
		cfg.Jitter.Errors, cfg.Paging.LoadErrors = sim.InferLike(), sim.LoadLike()
	}
	rec := record(cfg, 60*mono.Second, 1, func(wire.ModelID) int { return 0 })
	res, err := sim.Run(cfg, stop)
	if err != nil {
		return f, err
	}
	f.All = rec.end(res, j.GPUs)
	f.Series, f.Unique, f.Busy, f.Copying = rec.groups[0], rec.unique, rec.shares(rec.busy, j.GPUs), rec.shares(rec.copying, j.GPUs)
	return f, nil
}

// bounds8 are requests/s that no scheduler exceeds with so many GPUs: if all ran in batches
// of b, and the fluid bound.
func bounds8(gpus int, mapping workload.Mapping, slo float64) (b1, b4, b16, fluid float64, err error) {
	models := varieties(copies8, mono.FromMillis(slo))
	source, err := workload.NewMAF(workload.MAFConfig{Models: len(models), Mapping: mapping, Seed: seedFirst})
	if err != nil {
		return 0, 0, 0, 0, err
	}
	var loads []report.Load
	need := map[int]float64{}
	for i, rate := range source.Rates() {
		share := rate / rate8
		loads = append(loads, report.Load{Profile: models[i].Profile, SLO: models[i].SLO, Share: share})
		for _, b := range []int{1, 4, 16} {
			need[b] += share * models[i].Profile.Latency(b).Seconds() / float64(b)
		}
	}
	n := float64(gpus)
	return n / need[1], n / need[4], n / need[16], report.Fluid(loads, gpus), nil
}

func fig8(s *paper.Session) error {
	count := paper.Pick(s, 240.0, 8*3600.0)
	warmup := paper.Pick(s, 60.0, 300.0)
	var jobs []paper.Job[found8]
	var rows [][]string
	for _, gpus := range []int{12, 6} {
		for _, mapping := range []workload.Mapping{workload.Striped, workload.Sorted} {
			b1, b4, b16, fluid, err := bounds8(gpus, mapping, 100)
			if err != nil {
				return err
			}
			row := []string{fmt.Sprint(gpus), string(mapping), paper.Number(b1, 0), paper.Number(b4, 0), paper.Number(b16, 0), paper.Number(fluid, 0), "yes"}
			if fluid < rate8 {
				row[len(row)-1] = "no: the bound is below what is offered"
			} else {
				j := job8{GPUs: gpus, Mapping: mapping, Rate: rate8, SLO: 100, Errors: true, Warmup: warmup, Count: count, Seed: seedFirst}
				jobs = append(jobs, paper.Job[found8]{Kind: kind("fig8"), About: j, Run: j.run})
			}
			rows = append(rows, row)
		}
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("4,026 models, SLO 100 ms, a synthetic trace of 17,000 functions and %g r/s; %g s counted after %g s; seed %d; loads and executions off their profiles as in figure 9", rate8, count, warmup, seedFirst)
	if err := s.Table("fig8_bounds", []string{"GPUs", "mapping", "bound at b = 1", "b = 4", "b = 16", "fluid", "run"}, rows); err != nil {
		return err
	}
	for i := range found {
		j := jobs[i].About.(job8)
		if err := show8(s, &j, &found[i]); err != nil {
			return err
		}
	}
	return nil
}

// show8 makes the claims, the table and the picture of a run.
func show8(s *paper.Session, j *job8, f *found8) error {
	name := fmt.Sprintf("%d GPUs, %s", j.GPUs, j.Mapping)
	from, to := int(j.Warmup/60), int((j.Warmup+j.Count)/60)
	unique := 0.0
	for _, n := range f.Unique[from:to] {
		unique += float64(n) / float64(to-from)
	}
	w := &f.All
	cold := float64(w.Cold) / float64(max(1, w.Arrived))
	s.Claim(paper.Claim{What: name + ": requests in time", Paper: ">= 99.99 % (99.997 %)", Ours: fmt.Sprintf("%.4f %% of %d, %d late", 100*w.satisfied(), w.Arrived, w.Late), Holds: w.satisfied() >= 0.9999})
	if j.Mapping == workload.Striped { // what the trace is calibrated for
		s.Claim(paper.Claim{What: name + ": cold requests", Paper: "2 to 6 % (3.7 %, 178 r/s)", Ours: fmt.Sprintf("%.2f %%, %.0f r/s", 100*cold, cold*w.Offered), Holds: cold >= 0.02 && cold <= 0.06})
		s.Claim(paper.Claim{What: name + ": models that are cold in a minute", Paper: "2,190 (54 %); held to within 15 %", Ours: fmt.Sprintf("%.0f (%.0f %%)", unique, 100*unique/(61*copies8)), Holds: unique >= 0.85*2190 && unique <= 1.15*2190})
	}
	var rows [][]string
	axis, goodput, colds, models := make([]float64, 0, to), make([]float64, 0, to), make([]float64, 0, to), make([]float64, 0, to)
	for i := from; i < to; i++ {
		axis, models = append(axis, float64(i-from)), append(models, float64(f.Unique[i]))
		goodput, colds = append(goodput, float64(f.Series.Served[i])/60), append(colds, float64(f.Series.Cold[i])/60)
		rows = append(rows, []string{fmt.Sprint(i - from), paper.Number(float64(f.Series.Arrived[i])/60, 1), paper.Number(goodput[i-from], 1), fmt.Sprint(f.Series.Late[i]), fmt.Sprint(f.Series.Dropped[i]),
			paper.Number(colds[i-from], 1), fmt.Sprint(f.Unique[i]), paper.Number(f.Series.LatencyP50[i], 2), paper.Number(f.Series.LatencyP99[i], 2), paper.Number(f.Series.LatencyMax[i], 2),
			paper.Number(f.Busy[i], 4), paper.Number(f.Copying[i], 4)})
	}
	file := fmt.Sprintf("fig8_%d_%s", j.GPUs, j.Mapping)
	header := []string{"minute", "offered r/s", "goodput r/s", "late", "dropped", "cold r/s", "cold models", "p50 ms", "p99 ms", "max ms", "GPUs busy", "PCIe busy"}
	if err := s.Table(file, header, rows); err != nil {
		return err
	}
	x := plot.Axis{Label: "t (min)"}
	return s.PlotSized(file, plot.Size{W: 9, H: 7}, plot.Grid{Title: fmt.Sprintf("Clockwork, synthetic trace, %s (simulated)", name), Cols: 2, Panels: []plot.Picture{
		plot.Lines{Title: "(a) goodput", X: x, Y: plot.Axis{Label: "requests/s"}, Series: []plot.Series{{Name: systemName, X: axis, Y: goodput}}},
		plot.Lines{Title: "(b) latency", X: x, Y: plot.Axis{Label: "ms"}, Series: []plot.Series{{Name: "median", X: axis, Y: f.Series.LatencyP50[from:to]}, {Name: "p99", X: axis, Y: f.Series.LatencyP99[from:to]}, {Name: "greatest", X: axis, Y: f.Series.LatencyMax[from:to]}}},
		plot.Lines{Title: "(d) models cold in the minute", X: x, Y: plot.Axis{Label: "models"}, Series: []plot.Series{{Name: systemName, X: axis, Y: models}}},
		plot.Lines{Title: "(e) cold requests", X: x, Y: plot.Axis{Label: "requests/s"}, Series: []plot.Series{{Name: systemName, X: axis, Y: colds}}},
	}})
}

// table65: the same trace at 6,174 r/s for an hour on 20 GPUs, without errors.
func table65(s *paper.Session) error {
	const rate = 6174.0
	var jobs []paper.Job[found8]
	slos := []float64{100, 25}
	for _, slo := range slos {
		j := job8{GPUs: 20, Mapping: workload.Striped, Rate: rate, SLO: slo, Warmup: paper.Pick(s, 60.0, 300.0), Count: paper.Pick(s, 60.0, 3600.0), Seed: seedFirst}
		jobs = append(jobs, paper.Job[found8]{Kind: kind("fig8"), About: j, Run: j.run})
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("20 GPUs, 4,026 models, a synthetic trace of %g r/s, striped; %g s counted after %g s; seed %d; lengths as in the profiles", rate, paper.Pick(s, 60.0, 3600.0), paper.Pick(s, 60.0, 300.0), seedFirst)
	var rows [][]string
	for i, slo := range slos {
		_, _, b16, fluid, err := bounds8(20, workload.Striped, slo)
		if err != nil {
			return err
		}
		w := &found[i].All
		want := []float64{0.999, 0.982}[i]
		s.Claim(paper.Claim{What: fmt.Sprintf("goodput at an SLO of %g ms", slo), Paper: fmt.Sprintf(">= %g of what is offered (%s r/s of 6,174)", want, []string{"6,174", "6,060"}[i]),
			Ours: fmt.Sprintf("%.5f: %.0f of %.0f r/s", w.satisfied(), w.Served, w.Offered), Holds: w.satisfied() >= want})
		s.Claim(paper.Claim{What: fmt.Sprintf("late at an SLO of %g ms", slo), Paper: fmt.Sprintf("0 (%d)", []int{0, 361}[i]), Ours: fmt.Sprint(w.Late), Holds: w.Late == 0})
		rows = append(rows, []string{paper.Number(slo, 0), paper.Number(w.Served, 0), paper.Number(w.Offered, 0), fmt.Sprint(w.Late), paper.Number(w.P50, 2), []string{"6.28", "5.77"}[i],
			paper.Number(w.P9999, 2), []string{"49.92", "21.60"}[i], paper.Number(w.Max, 2), paper.Number(w.Busy, 3), paper.Number(w.Copying, 3), paper.Number(float64(w.Cold)/float64(max(1, w.Arrived)), 4), paper.Number(b16, 0), paper.Number(fluid, 0)})
	}
	return s.Table("table65", []string{"SLO ms", "goodput r/s", "offered r/s", "late", "p50 ms", "paper", "p99.99 ms", "paper", "max ms", "GPUs busy", "PCIe busy", "cold", "bound at b = 16", "fluid bound"}, rows)
}
