package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim"
)

// RunJob is one simulation at one rate.
type RunJob struct {
	System     string
	Workload   Workload
	Rate       float64 // requests/s, all models
	Seed       uint64
	Seconds    float64 // counted
	Warmup     float64 // seconds before them; 0 means 2
	Histograms bool    `json:",omitempty"` // Sizes and QueueTime are wanted
}

// Measures of a run.
type Measures struct {
	Offered   float64 // requests/s
	Served    float64 // requests/s in time
	BadRate   float64 // of all requests
	Worst     float64 // bad rate of the model that fared worst
	Busy      float64 // share of the GPUs' time
	Lost      float64 // of it, for work that was thrown away
	BatchMean float64
	BatchP50  int       // requests ran in a batch of so many, median
	QueueP50  float64   // ms from arrival until the batch starts
	QueueP99  float64   // ms
	GPUBusy   []float64 `json:",omitempty"` // share, by GPU
	Sizes     []int64   `json:",omitempty"` // [b]: requests that ran in a batch of b
	QueueTime []int64   `json:",omitempty"` // [i]: requests that waited i*sim.QueueUnit
}

const warmupDefault = 2

// measure is what a result says. Histograms lose their zeros at the end.
func measure(r *sim.Result, gpus int, histograms bool) Measures {
	m := Measures{Offered: r.Offered(), Served: r.Served(), BadRate: r.All.BadRate(), Worst: sim.WorstBadRate(r, nil),
		Busy: r.Utilisation(gpus), Lost: float64(r.Lost) / float64(r.Span) / float64(gpus), BatchMean: r.BatchMean(),
		BatchP50: sim.Percentile(r.Sizes, 0.5)}
	unit := sim.QueueUnit.Millis()
	m.QueueP50, m.QueueP99 = float64(sim.Percentile(r.QueueTime, 0.5))*unit, float64(sim.Percentile(r.QueueTime, 0.99))*unit
	for _, b := range r.Busy {
		m.GPUBusy = append(m.GPUBusy, float64(b)/float64(r.Span))
	}
	if histograms {
		m.Sizes, m.QueueTime = trimmed(r.Sizes), trimmed(r.QueueTime)
	}
	return m
}

func trimmed(h []int64) []int64 {
	n := len(h)
	for n > 0 && h[n-1] == 0 {
		n--
	}
	return h[:n]
}

// Runs simulates the jobs.
func (s *Session) Runs(jobs []RunJob) ([]Measures, error) {
	list := make([]Job[Measures], len(jobs))
	for i, j := range jobs {
		if j.Warmup == 0 {
			j.Warmup = warmupDefault
		}
		s.Setting("runs: %g s simulated after %g s that do not count, %s", j.Seconds, j.Warmup, seedsText([]uint64{j.Seed}))
		list[i] = Job[Measures]{Kind: "run", About: j, Weight: j.Rate * (j.Seconds + j.Warmup), Run: j.run}
	}
	return Each(s, list)
}

func (j RunJob) run(stop func() bool) (Measures, error) {
	sys, err := SystemOf(j.System)
	if err != nil {
		return Measures{}, err
	}
	c, err := j.Workload.config(sys, j.Rate, j.Seed, j.Seconds, j.Warmup)
	if err != nil {
		return Measures{}, err
	}
	r, err := sim.Run(c, stop)
	if err != nil {
		return Measures{}, fmt.Errorf("%s at %g r/s: %w", j.System, j.Rate, err)
	}
	return measure(r, j.Workload.GPUs, j.Histograms), nil
}
