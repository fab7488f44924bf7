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

// Sections 6.3 and 6.4: 6 GPUs, SLOs of 2.9 ms times 1.5 and again, up to 250 ms. All models
// are on all GPUs from the beginning: at the tightest SLOs no load could help a request, and
// the paper does not say how its models came there. Each SLO is a run of its own.
const (
	gpus7     = 6
	steps7    = 12
	sloFirst7 = 2.9 // ms
)

// multiple is step k of the SLO, in first SLOs.
func multiple(k int) float64 {
	m := 1.0
	for range k {
		m *= 1.5
	}
	return m
}

// job7 is a run. Clients are batch clients beside the N models: so many models, each with
// so many clients.
type job7 struct {
	N             int
	Rate          float64 // requests/s of all
	SLO           float64 // ms
	BatchModels   int     `json:",omitempty"`
	Concurrency   int     `json:",omitempty"`
	Warmup, Count float64 // s
	Seed          uint64
}

// found7 tells of the latency-sensitive requests, and of those of the batch clients.
type found7 struct {
	Satisfied float64 // share
	Late      int64
	BusyLS    float64 // share of the GPUs' time
	BatchRate float64 // requests/s
	BusyBatch float64
	Bad       int64 // of the batch clients
}

// unhurried is the SLO of batch clients, who have none: far beyond what any waits.
const unhurried = 10 * mono.Second

func (j job7) run(stop func() bool) (f found7, err error) {
	models, err := resnets(j.N+j.BatchModels, mono.FromMillis(j.SLO))
	if err != nil {
		return f, err
	}
	streams, counts := make([]workload.Stream, j.N), make([]int, len(models))
	for i := range models {
		if i < j.N {
			streams[i] = workload.Stream{Process: workload.Poisson, Rate: j.Rate / float64(j.N)}
		} else {
			counts[i], models[i].SLO = j.Concurrency, unhurried
		}
	}
	mix, err := workload.NewMix(streams, j.Seed)
	if err != nil {
		return f, err
	}
	var source workload.Source = mix
	if j.BatchModels > 0 {
		if source, err = workload.NewClients(counts, mono.Millisecond, 100*mono.Millisecond, mix); err != nil {
			return f, err
		}
	}
	cfg := cluster(models, gpus7, source, mono.FromSeconds(j.Warmup), mono.FromSeconds(j.Count), j.Seed)
	cfg.Paging.Held = everywhere(len(models), gpus7)
	var busy [2]mono.Dur
	from, to := mono.Time(cfg.Warmup), mono.Time(cfg.Warmup+cfg.Duration)
	cfg.Observer.Executed = func(e *sim.Execution) {
		k := 0
		if e.Model >= wire.ModelID(j.N) {
			k = 1
		}
		busy[k] += max(0, min(e.End, to).Sub(max(e.Start, from)))
	}
	res, err := sim.Run(cfg, stop)
	if err != nil {
		return f, err
	}
	var ls, bc sim.Counts
	for i := range res.Models {
		to := &ls
		if i >= j.N {
			to = &bc
		}
		to.Arrived, to.Served, to.Late = to.Arrived+res.Models[i].Arrived, to.Served+res.Models[i].Served, to.Late+res.Models[i].Late
	}
	share := func(d mono.Dur) float64 { return float64(d) / float64(cfg.Duration) / gpus7 }
	return found7{Satisfied: 1 - ls.BadRate(), Late: ls.Late, BusyLS: share(busy[0]), BusyBatch: share(busy[1]),
		BatchRate: float64(bc.Served) / cfg.Duration.Seconds(), Bad: bc.Bad()}, nil
}

// line7 is one curve of figure 7 (left): satisfied from this step on, the paper says.
type line7 struct {
	n    int
	rate float64
	step int
}

func lines7() []line7 {
	return []line7{{12, 600, 3}, {48, 600, 3}, {12, 1200, 5}, {48, 1200, 5}, {12, 2400, 8}, {48, 2400, 8}}
}

// seeds7 are those of figure 7.
func seeds7(s *paper.Session) []uint64 {
	return paper.Pick(s, []uint64{11}, []uint64{11, 12, 13, 14, 15})
}

func fig7left(s *paper.Session) error {
	seeds, list := seeds7(s), lines7()
	var jobs []paper.Job[found7]
	for _, l := range list {
		for k := range steps7 {
			for _, seed := range seeds {
				j := job7{N: l.n, Rate: l.rate, SLO: sloFirst7 * multiple(k), Warmup: 1, Count: paper.Pick(s, 5.0, 30.0), Seed: seed}
				jobs = append(jobs, paper.Job[found7]{Kind: kind("fig7"), About: j, Weight: l.rate, Run: j.run})
			}
		}
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("%d GPUs, ResNet50, Poisson arrivals; %g s counted after 1 s for each SLO, seeds %v; all models on all GPUs at the beginning", gpus7, paper.Pick(s, 5.0, 30.0), seeds)
	var rows [][]string
	pic := plot.Lines{Title: "Clockwork: share of requests within the SLO (simulated)", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "satisfied (%)"}, Markers: true}
	for _, l := range list {
		line := plot.Series{Name: fmt.Sprintf("%s N=%d R=%g", systemName, l.n, l.rate)}
		reached := -1
		for k := range steps7 {
			of, mean, late := found[:len(seeds)], 0.0, int64(0)
			found = found[len(seeds):]
			for _, f := range of {
				mean, late = mean+f.Satisfied/float64(len(seeds)), late+f.Late
			}
			switch {
			case mean < 0.999:
				reached = -1
			case reached < 0:
				reached = k
			}
			line.X, line.Y = append(line.X, sloFirst7*multiple(k)), append(line.Y, 100*mean)
			rows = append(rows, []string{fmt.Sprint(l.n), paper.Number(l.rate, 0), paper.Number(multiple(k), 2), paper.Number(sloFirst7*multiple(k), 2), paper.Number(mean, 5), fmt.Sprint(late)})
		}
		pic.Series = append(pic.Series, line)
		ours := "never"
		if reached >= 0 {
			ours = fmt.Sprintf("%.1fx (%.1f ms) on", multiple(reached), sloFirst7*multiple(reached))
		}
		s.Claim(paper.Claim{What: fmt.Sprintf("N = %d, R = %g: >= 99.9 %% satisfied from", l.n, l.rate), Paper: fmt.Sprintf("%.1fx", multiple(l.step)), Ours: ours,
			Holds: reached >= 0 && reached <= l.step})
	}
	if err := s.Table("fig7left", []string{"N", "R r/s", "SLO/2.9 ms", "SLO ms", "satisfied", "late"}, rows); err != nil {
		return err
	}
	return s.Plot("fig7left", pic)
}

// scene7 is a scenario of figure 7 (right).
type scene7 struct {
	name                string
	models, concurrency int
}

func fig7right(s *paper.Session) error {
	scenes := []scene7{{"no batch clients", 0, 0}, {"12 with 16 requests each", 12, 16}, {"48 with 4 requests each", 48, 4}}
	var jobs []paper.Job[found7]
	for _, c := range scenes {
		for k := range steps7 {
			j := job7{N: 6, Rate: 1200, SLO: sloFirst7 * multiple(k), BatchModels: c.models, Concurrency: c.concurrency, Warmup: 1, Count: paper.Pick(s, 5.0, 30.0), Seed: seedFirst}
			jobs = append(jobs, paper.Job[found7]{Kind: kind("fig7"), About: j, Run: j.run})
		}
	}
	found, err := paper.Each(s, jobs)
	if err != nil {
		return err
	}
	s.Setting("%d GPUs, 6 latency-sensitive ResNet50 of 200 r/s each; batch clients in a closed loop, 1 ms from an answer to the next request; %g s counted, seed %d", gpus7, paper.Pick(s, 5.0, 30.0), seedFirst)
	s.Note("Batch clients have an SLO of %v here, which none comes near: Clockwork knows no other class, and a far deadline is the last in its order.", unhurried)
	var rows [][]string
	left := plot.Lines{Title: "latency-sensitive", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "satisfied (%)"}, Markers: true}
	right := plot.Lines{Title: "batch clients", X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "requests/s"}, Markers: true}
	const unaffected = 6 // 11.4x
	for i, c := range scenes {
		ls, bc := plot.Series{Name: c.name}, plot.Series{Name: c.name}
		worst, least, bad := 0.0, 1.0, int64(0)
		for k := range steps7 {
			f, alone := found[i*steps7+k], found[k]
			slo := sloFirst7 * multiple(k)
			ls.X, ls.Y, bc.X, bc.Y = append(ls.X, slo), append(ls.Y, 100*f.Satisfied), append(bc.X, slo), append(bc.Y, f.BatchRate)
			part := f.BusyBatch / (1 - f.BusyLS)
			rows = append(rows, []string{c.name, paper.Number(multiple(k), 2), paper.Number(slo, 2), paper.Number(f.Satisfied, 5), paper.Number(f.BatchRate, 1), paper.Number(f.BusyLS, 4), paper.Number(part, 4)})
			if bad += f.Bad; k >= unaffected {
				worst, least = max(worst, alone.Satisfied-f.Satisfied), min(least, part)
			}
		}
		left.Series = append(left.Series, ls)
		if c.models == 0 {
			continue
		}
		right.Series = append(right.Series, bc)
		s.Claim(paper.Claim{What: c.name + ": latency-sensitive ones against those alone, from 11.4x", Paper: "within 0.5 points", Ours: paper.Number(100*worst, 3) + " points less at most", Holds: worst <= 0.005})
		s.Claim(paper.Claim{What: c.name + ": of the GPU time that is left, from 11.4x", Paper: ">= 0.85 (at b = 16)", Ours: paper.Number(least, 4), Holds: least >= 0.85})
		s.Claim(paper.Claim{What: c.name + ": batch requests lost", Paper: "0", Ours: fmt.Sprint(bad), Holds: bad == 0})
	}
	if err := s.Table("fig7right", []string{"batch clients", "SLO/2.9 ms", "SLO ms", "satisfied", "batch r/s", "GPUs for SLOs", "batch clients' part of the rest"}, rows); err != nil {
		return err
	}
	return s.PlotSized("fig7right", plot.Size{W: 9, H: 4}, plot.Grid{Title: "Clockwork: batch clients beside latency-sensitive ones (simulated)", Cols: 2, Panels: []plot.Picture{left, right}})
}
