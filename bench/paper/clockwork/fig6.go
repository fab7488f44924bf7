package clockwork

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Section 6.2: one GPU, an SLO of 100 ms. Model 0 is the Minor workload.
const (
	minorRate, majorRate = 200.0, 1000.0
	majorModels          = 3600
	slo6                 = 100 * mono.Millisecond
)

// growing6 is the arrivals: Minor from the beginning, Major from begin on.
func growing6(begin mono.Time, gap mono.Dur, seed uint64) (*workload.Growing, error) {
	return workload.NewGrowing(workload.GrowingConfig{Steady: minorRate, Rate: majorRate, Others: majorModels, Begin: begin, Gap: gap, Seed: seed})
}

// job6 is a run. Speed is how much faster models are added than one a second.
type job6 struct {
	System string  `json:",omitempty"` // key
	Quiet  float64 // s with Minor alone
	Growth float64 // s from one Major model to all
	Tail   float64 // s with all of them
	Seed   uint64
}

// found6 is what came of it.
type found6 struct {
	Minor, Major  Series
	Busy, Copying []float64 // shares, by interval
	Models        float64   // resident ones at the end
	FullAt        float64   // Major models that were active when that number was first there
	Max           float64   // ms, of all latencies
	All           Whole
}

func (j job6) run(stop func() bool) (f found6, err error) {
	models, err := ResNets(1+majorModels, slo6)
	if err != nil {
		return f, err
	}
	source, err := growing6(mono.Time(mono.FromSeconds(j.Quiet)), mono.FromSeconds(j.Growth)/majorModels, j.Seed)
	if err != nil {
		return f, err
	}
	cfg := Cluster(j.System, models, 1, source, 0, mono.FromSeconds(j.Quiet+j.Growth+j.Tail), j.Seed)
	every := mono.FromSeconds(j.Growth / 60) // a minute of the paper's
	rec := record(cfg, every, 2, func(m wire.ModelID) int { return min(int(m), 1) })
	var loaded []mono.Time
	count := cfg.Observer.Copied
	cfg.Observer.Copied = func(c *sim.Copy) {
		loaded = append(loaded, c.End)
		count(c)
	}
	res, err := sim.Run(cfg, stop)
	if err != nil {
		return f, err
	}
	f.All = rec.end(res, 1)
	f.Minor, f.Major = rec.groups[0], rec.groups[1]
	f.Busy, f.Copying, f.Models, f.Max = rec.shares(rec.busy, 1), rec.shares(rec.copying, 1), float64(res.Loads.Resident), f.All.Max
	if n := int(res.Loads.Resident); n <= len(loaded) && n > 0 {
		f.FullAt = float64(source.Active(loaded[n-1]))
	}
	return f, nil
}

// jobs6 are the runs of figure 6, one of each system.
func jobs6(s *paper.Session) (jobs []paper.Job[found6]) {
	for _, sys := range systems() {
		j := job6{System: sys.key, Quiet: paper.Pick(s, 6.0, 900.0), Growth: paper.Pick(s, 120.0, 3600.0), Tail: paper.Pick(s, 4.0, 60.0), Seed: seedFirst}
		jobs = append(jobs, paper.Job[found6]{Kind: kind("fig6"), About: j, Run: j.run})
	}
	return jobs
}

// curves6 is what a run of figure 6 is plotted as, by minutes of the paper's.
type curves6 struct {
	minor, major, cold, mean, latest []float64
}

func fig6(s *paper.Session) error {
	jobs := jobs6(s)
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	j := jobs[0].About.(job6)
	s.Setting("one GPU, SLO 100 ms; Minor %g r/s, Major %g r/s over one more model each %g s; seed %d", minorRate, majorRate, j.Growth/majorModels, j.Seed)
	minute := j.Growth / 60
	first := int(j.Quiet / minute)
	n := first + 60 // up to the last one in which models are added
	axis := make([]float64, n)
	for i := range axis {
		axis[i] = float64(i - first)
	}
	var rows [][]string
	panels := make([][]plot.Series, 5)
	for k, sys := range systems() {
		f := &found[k]
		c := f.curves(minute)
		for i := range axis {
			rows = append(rows, []string{sys.name, paper.Number(axis[i], 0), paper.Number(c.minor[i], 1), paper.Number(c.major[i], 1), paper.Number(c.cold[i], 1), paper.Number(float64(f.Minor.Cold[i]), 0),
				paper.Number(c.mean[i], 2), paper.Number(c.latest[i], 2), paper.Number(f.Copying[i], 4), paper.Number(f.Busy[i], 4)})
		}
		claims6(s, sys, f, &c, first, n-1)
		for p, lines := range [][]plot.Series{{{Name: ": Minor", Y: c.minor}, {Name: ": Major", Y: c.major}}, {{Name: ": Minor, mean", Y: c.mean}, {Name: ": all, greatest", Y: c.latest}},
			{{Y: c.cold}}, {{Y: f.Copying}}, {{Y: f.Busy}}} {
			for _, l := range lines {
				panels[p] = append(panels[p], plot.Series{Name: sys.name + l.Name, X: axis, Y: l.Y[:n]})
			}
		}
	}
	if err := s.Table("fig6", []string{"system", "t (min)", "Minor r/s", "Major r/s", "cold r/s", "Minor cold", "Minor mean ms", "max ms", "PCIe busy", "GPU busy"}, rows); err != nil {
		return err
	}
	panel := func(k int, title, label string) plot.Lines {
		return plot.Lines{Title: title, X: plot.Axis{Label: "t (min)"}, Y: plot.Axis{Label: label}, Series: panels[k]}
	}
	return s.PlotSized("fig6", plot.Size{W: 9, H: 9}, plot.Grid{Title: "3,601 models on one GPU (simulated)", Cols: 2, Panels: []plot.Picture{
		panel(0, "(a) goodput", "requests/s"), panel(1, "(b) latency", "ms"), panel(2, "(c) cold starts", "requests/s"), panel(3, "(d) PCIe", "busy share"), panel(4, "(e) GPU", "busy share")}})
}

func (f *found6) curves(minute float64) (c curves6) {
	per := func(list []int64) []float64 { return scaled(list, 1/minute) }
	c.minor, c.major = per(f.Minor.Served), per(f.Major.Served)
	c.cold = per(add(f.Minor.Cold, f.Major.Cold))
	c.mean, c.latest = make([]float64, len(c.minor)), make([]float64, len(c.minor))
	for i := range c.mean {
		c.mean[i] = f.Minor.LatencySum[i] / float64(max(1, f.Minor.Served[i]+f.Minor.Late[i]))
		c.latest[i] = max(f.Minor.LatencyMax[i], f.Major.LatencyMax[i])
	}
	return c
}

// claims6: minutes are those of the paper, whatever the run's.
func claims6(s *paper.Session, sys system, f *found6, c *curves6, first, last int) {
	minor, major, mean := c.minor, c.major, c.mean
	least := func(list []float64, from int) float64 {
		low := list[from]
		for _, v := range list[from : last+1] {
			low = min(low, v)
		}
		return low
	}
	late, colds := int64(0), int64(0)
	for i := range minor {
		late += f.Minor.Late[i] + f.Major.Late[i]
		if i >= first+20 && i <= last {
			colds += f.Minor.Cold[i]
		}
	}
	s.Claim(paper.Claim{What: sys.name + ": models resident when the memory is full", Paper: "196 +- 2 by arithmetic (the paper: 201 at t = 3.5 min)", Ours: fmt.Sprintf("%.0f, %.0f active when first reached", f.Models, f.FullAt), Holds: f.Models >= 194 && f.Models <= 198})
	pcie := least(f.Copying, first+10)
	s.Claim(paper.Claim{What: sys.name + ": PCIe busy from t = 10 min", Paper: ">= 0.98 in each minute (100 %)", Ours: paper.Number(pcie, 4), Holds: pcie >= 0.98})
	// A minute of a quick run is two seconds: 400 requests, so 5 % either way is chance.
	want := paper.Pick(s, 0.9, 0.99) * minorRate
	offered := minorShare(f, first+20, last)
	s.Claim(paper.Claim{What: sys.name + ": Minor from t = 20 min", Paper: fmt.Sprintf(">= %g r/s on average, and what is offered (200 r/s again)", want),
		Ours: fmt.Sprintf("%.2f r/s, %.5f of what is offered, %.1f r/s in the worst minute", average(minor[first+20:last+1]), offered, least(minor, first+20)), Holds: average(minor[first+20:last+1]) >= want && offered >= 0.99})
	s.Claim(paper.Claim{What: sys.name + ": Minor's cold starts from t = 20 min", Paper: "0", Ours: fmt.Sprint(colds), Holds: colds == 0})
	end := major[last]
	s.Claim(paper.Claim{What: sys.name + ": Major at t = 60 min", Paper: ">= 120 r/s (bound 120.2/(1-196/3600) = 127)", Ours: paper.Number(end, 1) + " r/s", Holds: end >= 120})
	s.Claim(paper.Claim{What: sys.name + ": the greatest latency", Paper: "<= 100 ms", Ours: fmt.Sprintf("%.2f ms, %d late", f.Max, late), Holds: f.Max <= 100 && late == 0})
	if sys.key != "" {
		return // it spends the SLO on purpose
	}
	m := average(mean[first+20 : last+1])
	s.Claim(paper.Claim{What: sys.name + ": Minor's mean latency from t = 20 min", Paper: "20 ms (held to 10 to 30)", Ours: paper.Number(m, 2) + " ms", Holds: m >= 10 && m <= 30})
}

// minorShare is what part of Minor's requests was served in those minutes.
func minorShare(f *found6, from, to int) float64 {
	served, all := int64(0), int64(0)
	for i := from; i <= to; i++ {
		served, all = served+f.Minor.Served[i], all+f.Minor.Served[i]+f.Minor.Late[i]+f.Minor.Dropped[i]
	}
	return float64(served) / float64(max(1, all))
}
