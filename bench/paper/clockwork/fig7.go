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
	System        string `json:",omitempty"` // key
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

// unhurried is the SLO of batch clients, who have none, for a policy that knows no best effort: far beyond what any waits. patient is
// how long those of best effort wait at most.
const (
	unhurried = 10 * mono.Second
	patient   = 3600 * mono.Second
)

func (j job7) run(stop func() bool) (f found7, err error) {
	models, err := ResNets(j.N+j.BatchModels, mono.FromMillis(j.SLO))
	if err != nil {
		return f, err
	}
	streams, counts := make([]workload.Stream, j.N), make([]int, len(models))
	for i := range models {
		if i < j.N {
			streams[i] = workload.Stream{Process: workload.Poisson, Rate: j.Rate / float64(j.N)}
		} else {
			counts[i], models[i].SLO = j.Concurrency, unhurried
			if j.System == Ours {
				models[i].Class, models[i].SLO = wire.ClassBestEffort, patient
			}
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
	cfg := Cluster(j.System, models, gpus7, source, mono.FromSeconds(j.Warmup), mono.FromSeconds(j.Count), j.Seed)
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

// jobs7left are the runs of figure 7 (left): by system, line, SLO and seed.
func jobs7left(s *paper.Session) (jobs []paper.Job[found7]) {
	for _, sys := range systems() {
		for _, l := range lines7() {
			for k := range steps7 {
				for _, seed := range seeds7(s) {
					j := job7{System: sys.key, N: l.n, Rate: l.rate, SLO: sloFirst7 * multiple(k), Warmup: 1, Count: paper.Pick(s, 5.0, 30.0), Seed: seed}
					jobs = append(jobs, paper.Job[found7]{Kind: kind("fig7"), About: j, Weight: l.rate, Run: j.run})
				}
			}
		}
	}
	return jobs
}

func fig7left(s *paper.Session) error {
	found, err := paper.Each(s, jobs7left(s))
	if err != nil {
		return err
	}
	s.Setting("%d GPUs, ResNet50, Poisson arrivals; %g s counted after 1 s for each SLO, seeds %v; all models on all GPUs at the beginning", gpus7, paper.Pick(s, 5.0, 30.0), seeds7(s))
	var rows [][]string
	panels := make([]plot.Picture, len(lines7()))
	for _, sys := range systems() {
		for n, l := range lines7() {
			line, reached := left7(s, sys, l, found, &rows)
			found = found[steps7*len(seeds7(s)):]
			p := plot.Lines{Title: fmt.Sprintf("N = %d, R = %g r/s", l.n, l.rate), X: plot.Axis{Label: "SLO (ms)", Log: true}, Y: plot.Axis{Label: "satisfied (%)"}, Markers: true}
			if old, ok := panels[n].(plot.Lines); ok {
				p = old
			}
			p.Series = append(p.Series, line)
			panels[n] = p
			ours := "never"
			if reached >= 0 {
				ours = fmt.Sprintf("%.1fx (%.1f ms) on", multiple(reached), sloFirst7*multiple(reached))
			}
			s.Claim(paper.Claim{What: fmt.Sprintf("%s, N = %d, R = %g: >= 99.9 %% satisfied from", sys.name, l.n, l.rate), Paper: fmt.Sprintf("%.1fx", multiple(l.step)), Ours: ours,
				Holds: reached >= 0 && reached <= l.step})
		}
	}
	if err := s.Table("fig7left", []string{"system", "N", "R r/s", "SLO/2.9 ms", "SLO ms", "satisfied", "late"}, rows); err != nil {
		return err
	}
	return s.PlotSized("fig7left", plot.Size{W: 9, H: 9}, plot.Grid{Title: "share of requests within the SLO (simulated)", Cols: 2, Panels: panels})
}

// left7 is one curve of figure 7 (left), which found begins with, and the step from which on it is satisfied; -1: never.
func left7(s *paper.Session, sys system, l line7, found []found7, rows *[][]string) (line plot.Series, reached int) {
	line.Name, reached = sys.name, -1
	seeds := len(seeds7(s))
	for k := range steps7 {
		mean, late := 0.0, int64(0)
		for _, f := range found[k*seeds:][:seeds] {
			mean, late = mean+f.Satisfied/float64(seeds), late+f.Late
		}
		switch {
		case mean < 0.999:
			reached = -1
		case reached < 0:
			reached = k
		}
		line.X, line.Y = append(line.X, sloFirst7*multiple(k)), append(line.Y, 100*mean)
		*rows = append(*rows, []string{sys.name, fmt.Sprint(l.n), paper.Number(l.rate, 0), paper.Number(multiple(k), 2), paper.Number(sloFirst7*multiple(k), 2), paper.Number(mean, 5), fmt.Sprint(late)})
	}
	return line, reached
}
