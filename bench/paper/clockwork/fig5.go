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

// Section 6.1: 15 models on one GPU, each with 16 closed-loop clients.
const models5, clients5 = 15, 16

// job5 is a run at one SLO.
type job5 struct {
	System        string  `json:",omitempty"` // key
	SLO           float64 // ms
	Warmup, Count float64 // s
	Seed          uint64
}

func (j job5) run(stop func() bool) (Whole, error) {
	models, err := ResNets(models5, mono.FromMillis(j.SLO))
	if err != nil {
		return Whole{}, err
	}
	counts := make([]int, models5)
	for i := range counts {
		counts[i] = clients5
	}
	source, err := workload.NewClients(counts, mono.Millisecond, 100*mono.Millisecond, nil)
	if err != nil {
		return Whole{}, err
	}
	cfg := Cluster(j.System, models, 1, source, mono.FromSeconds(j.Warmup), mono.FromSeconds(j.Count), j.Seed)
	cfg.Paging.Held = everywhere(models5, 1)
	rec := record(cfg, mono.FromSeconds(j.Warmup+j.Count), 1, func(wire.ModelID) int { return 0 })
	res, err := sim.Run(cfg, stop)
	if err != nil {
		return Whole{}, err
	}
	return rec.end(res, 1), nil
}

// bound5 is the most that a GPU serves when it always runs the size that is best within
// the SLO.
func bound5(slo float64) (float64, error) {
	w, err := resnet50()
	if err != nil {
		return 0, err
	}
	best := 0.0
	for _, k := range w.Latencies {
		if k.Latency <= mono.FromMillis(slo) {
			best = max(best, float64(k.Batch)/k.Latency.Seconds())
		}
	}
	return best, nil
}

func fig5(s *paper.Session) error {
	var jobs []paper.Job[Whole]
	slos := []float64{10, 15, 25, 35, 50, 75, 100, 150, 200, 300, 400, 500}
	for _, sys := range systems() {
		for _, slo := range slos {
			j := job5{System: sys.key, SLO: slo, Warmup: 5, Count: paper.Pick(s, 10.0, 60.0), Seed: seedFirst}
			jobs = append(jobs, paper.Job[Whole]{Kind: kind("fig5"), About: j, Run: j.run})
		}
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("one GPU, %d ResNet50, %d closed-loop clients each, 1 ms from an answer to the next request; %g s counted after 5 s", models5, clients5, paper.Pick(s, 10.0, 60.0))
	s.Note("The bound is the best b/l(b) with l(b) within the SLO. Clipper and INFaaS stand in the paper's figure and not here.")
	var rows [][]string
	var goodputs, tails []plot.Series
	bounds := plot.Series{Name: "bound", Dashed: true}
	for n, sys := range systems() {
		goodput, tail := plot.Series{Name: sys.name}, plot.Series{Name: sys.name + ", greatest"}
		bounds.X, bounds.Y = nil, nil
		late := int64(0)
		for i, w := range found[n*len(slos):][:len(slos)] {
			bound, err := bound5(slos[i])
			if err != nil {
				return err
			}
			late += w.Late
			goodput.X, goodput.Y = append(goodput.X, slos[i]), append(goodput.Y, w.Served)
			bounds.X, bounds.Y = append(bounds.X, slos[i]), append(bounds.Y, bound)
			tail.X, tail.Y = append(tail.X, slos[i]), append(tail.Y, w.Max)
			rows = append(rows, []string{sys.name, paper.Number(slos[i], 0), paper.Number(w.Served, 1), paper.Number(bound, 1), paper.Number(w.Served/bound, 4), paper.Number(w.BatchMean, 2),
				paper.Number(w.P50, 2), paper.Number(w.P99, 2), paper.Number(w.P9999, 2), paper.Number(w.Max, 2), fmt.Sprint(w.Late)})
			want := 0.95
			switch slo := slos[i]; {
			case slo < 25:
				want = 0.80
			case slo < 50:
				want = 0.90
			}
			s.Claim(paper.Claim{What: fmt.Sprintf("%s: goodput at an SLO of %g ms", sys.name, slos[i]), Paper: fmt.Sprintf(">= %.2f of the bound %.0f r/s", want, bound), Ours: fmt.Sprintf("%.0f r/s, %.3f of it", w.Served, w.Served/bound), Holds: w.Served >= want*bound})
		}
		s.Claim(paper.Claim{What: sys.name + ": answers after their SLO", Paper: "0", Ours: fmt.Sprint(late), Holds: late == 0})
		goodputs, tails = append(goodputs, goodput), append(tails, tail)
	}
	if err := s.Table("fig5", []string{"system", "SLO ms", "goodput r/s", "bound r/s", "of it", "batch", "p50 ms", "p99 ms", "p99.99 ms", "max ms", "late"}, rows); err != nil {
		return err
	}
	return s.PlotSized("fig5", plot.Size{W: 9, H: 4}, plot.Grid{Title: "15 ResNet50 on one GPU (simulated)", Cols: 2, Panels: []plot.Picture{
		plot.Lines{Title: "goodput", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "requests/s"}, Series: append(goodputs, bounds), Markers: true},
		plot.Lines{Title: "latency", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "ms"}, Series: tails, Markers: true}}})
}
