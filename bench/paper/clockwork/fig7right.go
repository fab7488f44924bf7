package clockwork

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/plot"
)

// scene7 is a scenario of figure 7 (right).
type scene7 struct {
	name                string
	models, concurrency int
}

func scenes7() []scene7 {
	return []scene7{{"no batch clients", 0, 0}, {"12 x 16 batch clients", 12, 16}, {"48 x 4 batch clients", 48, 4}}
}

// jobs7right are the runs of figure 7 (right): by system, scenario and SLO.
func jobs7right(s *paper.Session) (jobs []paper.Job[found7]) {
	for _, sys := range systems() {
		for _, c := range scenes7() {
			for k := range steps7 {
				j := job7{System: sys.key, N: 6, Rate: 1200, SLO: sloFirst7 * multiple(k), BatchModels: c.models, Concurrency: c.concurrency, Warmup: 1, Count: paper.Pick(s, 5.0, 30.0), Seed: seedFirst}
				jobs = append(jobs, paper.Job[found7]{Kind: kind("fig7"), About: j, Run: j.run})
			}
		}
	}
	return jobs
}

func fig7right(s *paper.Session) error {
	found, err := paper.Each(s, jobs7right(s))
	if err != nil {
		return err
	}
	s.Setting("%d GPUs, 6 latency-sensitive ResNet50 of 200 r/s each; batch clients in a closed loop, 1 ms from an answer to the next request; %g s counted, seed %d", gpus7, paper.Pick(s, 5.0, 30.0), seedFirst)
	s.Note("Batch clients' requests are of best effort (scheduler/gaps). Clockwork knows no such class: there they have an SLO of %v, which none comes near, and which is the last in its order.", unhurried)
	var rows [][]string
	left := plot.Lines{Title: "latency-sensitive", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "satisfied (%)"}, Markers: true}
	right := plot.Lines{Title: "batch clients", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "requests/s"}, Markers: true}
	for _, sys := range systems() {
		for i, c := range scenes7() {
			ls, bc := right7(s, sys, c, found[i*steps7:][:steps7], found, &rows)
			left.Series = append(left.Series, ls)
			if c.models > 0 {
				right.Series = append(right.Series, bc)
			}
		}
		found = found[len(scenes7())*steps7:]
	}
	if err := s.Table("fig7right", []string{"system", "batch clients", "SLO/2.9 ms", "SLO ms", "satisfied", "batch r/s", "GPUs for SLOs", "batch clients' part of the rest"}, rows); err != nil {
		return err
	}
	return s.PlotSized("fig7right", plot.Size{W: 11, H: 5}, plot.Grid{Title: "batch clients beside latency-sensitive ones (simulated)", Cols: 2, Panels: []plot.Picture{left, right}})
}

// right7 makes the curves, rows and claims of a scenario; alone begins with the run without batch clients.
func right7(s *paper.Session, sys system, c scene7, found, alone []found7, rows *[][]string) (ls, bc plot.Series) {
	const unaffected = 6 // 11.4x
	name := sys.name + ", " + c.name
	ls.Name, bc.Name = name, name
	worst, least, bad := 0.0, 1.0, int64(0)
	for k := range steps7 {
		f, slo := &found[k], sloFirst7*multiple(k)
		ls.X, ls.Y, bc.X, bc.Y = append(ls.X, slo), append(ls.Y, 100*f.Satisfied), append(bc.X, slo), append(bc.Y, f.BatchRate)
		part := f.BusyBatch / (1 - f.BusyLS)
		*rows = append(*rows, []string{sys.name, c.name, paper.Number(multiple(k), 2), paper.Number(slo, 2), paper.Number(f.Satisfied, 5), paper.Number(f.BatchRate, 1), paper.Number(f.BusyLS, 4), paper.Number(part, 4)})
		if bad += f.Bad; k >= unaffected {
			worst, least = max(worst, alone[k].Satisfied-f.Satisfied), min(least, part)
		}
	}
	if c.models > 0 {
		s.Claim(paper.Claim{What: name + ": latency-sensitive ones against those alone, from 11.4x", Paper: "within 0.5 points", Ours: paper.Number(100*worst, 3) + " points less at most", Holds: worst <= 0.005})
		s.Claim(paper.Claim{What: name + ": of the GPU time that is left, from 11.4x", Paper: ">= 0.85 (at b = 16)", Ours: paper.Number(least, 4), Holds: least >= 0.85})
		s.Claim(paper.Claim{What: name + ": batch requests lost", Paper: "0", Ours: fmt.Sprint(bad), Holds: bad == 0})
	}
	return ls, bc
}
