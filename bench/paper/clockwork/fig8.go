package clockwork

import (
	"fmt"
	"slices"

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
	System        string `json:",omitempty"` // key
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
	cfg := Cluster(j.System, models, j.GPUs, source, mono.FromSeconds(j.Warmup), mono.FromSeconds(j.Count), j.Seed)
	if j.Errors {
		cfg.Jitter.Errors, cfg.Paging.LoadErrors = sim.InferLike(), sim.LoadLike()
		cfg.Margins = j.System == Ours // as the engine does; Clockwork takes 5 ms off each SLO
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

// span8 is how many seconds of a trace are counted, after how many.
func (o Options) span8(s *paper.Session, quick, full float64) (warmup, count float64) {
	count = paper.Pick(s, quick, full)
	if o.Seconds > 0 {
		count = o.Seconds
	}
	return paper.Pick(s, 60.0, 300.0), count
}

// jobs8 are the runs of figure 8, by set-up and system: those that are asked for and whose fluid bound is not below what is
// offered. Each set-up of the paper's has a row that tells its bounds, run or not.
func (o Options) jobs8(s *paper.Session) (jobs []paper.Job[found8], rows [][]string, err error) {
	warmup, count := o.span8(s, 240, 8*3600)
	every := Options{}
	for _, gpus := range union(every.gpus(), o.gpus()) {
		for _, mapping := range every.mappings() {
			b1, b4, b16, fluid, err := bounds8(gpus, mapping, 100)
			if err != nil {
				return nil, nil, err
			}
			run := "yes"
			switch {
			case fluid < rate8:
				run = "no: the bound is below what is offered"
			case !slices.Contains(o.gpus(), gpus) || !slices.Contains(o.mappings(), mapping):
				run = "not asked for"
			default:
				for _, sys := range systems() {
					j := job8{System: sys.key, GPUs: gpus, Mapping: mapping, Rate: rate8, SLO: 100, Errors: true, Warmup: warmup, Count: count, Seed: seedFirst}
					jobs = append(jobs, paper.Job[found8]{Kind: kind("fig8"), About: j, Run: j.run})
				}
			}
			rows = append(rows, []string{fmt.Sprint(gpus), string(mapping), paper.Number(b1, 0), paper.Number(b4, 0), paper.Number(b16, 0), paper.Number(fluid, 0), run})
		}
	}
	return jobs, rows, nil
}

// union is a, and what of b is not in it.
func union(a, b []int) []int {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

func (o Options) fig8(s *paper.Session) error {
	jobs, rows, err := o.jobs8(s)
	if err != nil {
		return err
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	warmup, count := o.span8(s, 240, 8*3600)
	s.Setting("4,026 models, SLO 100 ms, a synthetic trace of 17,000 functions and %g r/s; %g s counted after %g s (the paper: 8 h); seed %d; loads and executions off their profiles as in figure 9", rate8, count, warmup, seedFirst)
	if err := s.Table("fig8_bounds", []string{"GPUs", "mapping", "bound at b = 1", "b = 4", "b = 16", "fluid", "run"}, rows); err != nil {
		return err
	}
	for i := 0; i < len(jobs); i += len(systems()) {
		j := jobs[i].About.(job8)
		if err := show8(s, &j, found[i:][:len(systems())]); err != nil {
			return err
		}
	}
	return nil
}

// show8 makes the claims, the table and the picture of a set-up, of whose runs there is one for each system.
func show8(s *paper.Session, j *job8, found []found8) error {
	from, to := int(j.Warmup/60), int((j.Warmup+j.Count)/60)
	x := plot.Axis{Label: "t (min)"}
	pics := []plot.Lines{{Title: "(a) goodput", X: x, Y: plot.Axis{Label: "requests/s"}}, {Title: "(b) latency", X: x, Y: plot.Axis{Label: "ms"}},
		{Title: "(d) models cold in the minute", X: x, Y: plot.Axis{Label: "models"}}, {Title: "(e) cold requests", X: x, Y: plot.Axis{Label: "requests/s"}}}
	var rows [][]string
	for k, sys := range systems() {
		f := &found[k]
		claims8(s, sys, j, f, from, to)
		n := to - from
		axis, goodput, colds, models := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
		for i := range axis {
			m := from + i
			axis[i], models[i], goodput[i], colds[i] = float64(i), float64(f.Unique[m]), float64(f.Series.Served[m])/60, float64(f.Series.Cold[m])/60
			rows = append(rows, []string{sys.name, fmt.Sprint(i), paper.Number(float64(f.Series.Arrived[m])/60, 1), paper.Number(goodput[i], 1), fmt.Sprint(f.Series.Late[m]), fmt.Sprint(f.Series.Dropped[m]),
				paper.Number(colds[i], 1), fmt.Sprint(f.Unique[m]), paper.Number(f.Series.LatencyP50[m], 2), paper.Number(f.Series.LatencyP99[m], 2), paper.Number(f.Series.LatencyMax[m], 2),
				paper.Number(f.Busy[m], 4), paper.Number(f.Copying[m], 4)})
		}
		for p, lines := range [][]plot.Series{{{Y: goodput}}, {{Name: ", median", Y: f.Series.LatencyP50[from:to]}, {Name: ", p99", Y: f.Series.LatencyP99[from:to]}, {Name: ", greatest", Y: f.Series.LatencyMax[from:to]}}, {{Y: models}}, {{Y: colds}}} {
			for _, l := range lines {
				pics[p].Series = append(pics[p].Series, plot.Series{Name: sys.name + l.Name, X: axis, Y: l.Y})
			}
		}
	}
	file := fmt.Sprintf("fig8_%d_%s", j.GPUs, j.Mapping)
	header := []string{"system", "minute", "offered r/s", "goodput r/s", "late", "dropped", "cold r/s", "cold models", "p50 ms", "p99 ms", "max ms", "GPUs busy", "PCIe busy"}
	if err := s.Table(file, header, rows); err != nil {
		return err
	}
	return s.PlotSized(file, plot.Size{W: 10, H: 7}, plot.Grid{Title: fmt.Sprintf("synthetic trace, %d GPUs, %s (simulated)", j.GPUs, j.Mapping), Cols: 2, Panels: []plot.Picture{pics[0], pics[1], pics[2], pics[3]}})
}

func claims8(s *paper.Session, sys system, j *job8, f *found8, from, to int) {
	name := fmt.Sprintf("%s, %d GPUs, %s", sys.name, j.GPUs, j.Mapping)
	unique := 0.0
	for _, n := range f.Unique[from:to] {
		unique += float64(n) / float64(to-from)
	}
	w := &f.All
	cold := float64(w.Cold) / float64(max(1, w.Arrived))
	why := ""
	if w.satisfied() < 0.9999 {
		why = "a synthetic trace: how hard it is depends on the seed: on which model the most popular function asks for"
	}
	s.Claim(paper.Claim{What: name + ": requests in time", Paper: ">= 99.99 % (99.997 %)", Ours: fmt.Sprintf("%.4f %% of %d, %d late", 100*w.satisfied(), w.Arrived, w.Late), Holds: w.satisfied() >= 0.9999, Why: why})
	if j.Mapping != workload.Striped { // what the trace is made for
		return
	}
	s.Claim(paper.Claim{What: name + ": cold requests", Paper: "2 to 6 % (3.7 %, 178 r/s)", Ours: fmt.Sprintf("%.2f %%, %.0f r/s", 100*cold, cold*w.Offered), Holds: cold >= 0.02 && cold <= 0.06})
	why = ""
	if sys.key == Ours {
		why = "the trace is made so that Clockwork's scheduler has as many; ours has fewer cold requests, on more models"
	}
	s.Claim(paper.Claim{What: name + ": models that are cold in a minute", Paper: "2,190 (54 %); held to within 15 %", Ours: fmt.Sprintf("%.0f (%.0f %%)", unique, 100*unique/(61*copies8)), Holds: unique >= 0.85*2190 && unique <= 1.15*2190, Why: why})
}
