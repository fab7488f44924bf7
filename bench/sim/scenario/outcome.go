package scenario

import (
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Outcome is a record: a scenario, and what came of it. Scenario.Seed is the
// run's own.
type Outcome struct {
	Core     int       `json:"sim_core"` // sim.CoreVersion; first, so that a record is known by its beginning
	Version  string    `json:"version"`  // of the program, for people
	Scenario Scenario  `json:"scenario"`
	Search   *Search   `json:"search,omitempty"` // nil: one run at Scenario.Rate
	Least    *Least    `json:"least,omitempty"`  // nil: no search for a number of GPUs
	All      Summary   `json:"all"`              // of the run; of a search's last pass
	Models   []Summary `json:"models"`
	GPUBusy  float64   `json:"gpu_busy"`           // share of the time, over all GPUs
	GPUsUsed int       `json:"gpus_used"`          // that ran anything
	GPUsMost int       `json:"gpus_most"`          // that carry MostShare of the GPU time, from id 0 on
	GPUs     []float64 `json:"gpus"`               // busy share of each
	Lost     float64   `json:"gpu_lost"`           // of GPUBusy, work that was lost (preempted, failed)
	Hopeless int64     `json:"hopeless,omitempty"` // arrivals that no scheduler could serve in time (sim.Result)
	Need     float64   `json:"need_gpus"`          // GPUs that deferral alone would keep busy, on average
	NeedPeak float64   `json:"need_peak_gpus"`     // in the second that needed most
	Bounds   Bounds    `json:"bounds"`
	Tuning   *Tuning   `json:"tuning,omitempty"` // nil: the policy has no tuner
}

// MostShare is the share of the GPU time by which GPUs count as in use: a surge now and then
// must not make a GPU that idles a GPU in use.
const MostShare = 0.99

// Search is how a goodput was sought, and what was found: the goodput is Rate.
type Search struct {
	Tolerance float64 `json:"tolerance"`
	Rate      float64 `json:"rate"`     // requests/s; the highest that passed
	TooHigh   float64 `json:"too_high"` // the lowest that failed
	Runs      int     `json:"runs"`
	Requests  int64   `json:"requests"` // counted ones, of all runs; a run that fails is given up early
	// Judged is the fewest requests that a p99 was told by: those of a group of
	// like models in the last pass. JudgedLeast or more make it worth something.
	Judged int64 `json:"judged"`
}

// JudgedLeast requests are ten bad ones at the bound of 1 %.
const JudgedLeast = 1000

// Summary is one model's, or of all together. Times are in milliseconds.
type Summary struct {
	Model      string           `json:"model,omitempty"`
	Arrived    int64            `json:"arrived"`
	Offered    float64          `json:"offered_rps"`
	Goodput    float64          `json:"goodput_rps"` // served in time
	BadRate    float64          `json:"bad_rate"`
	Bad        map[string]int64 `json:"bad"` // by reason
	QueueP50   float64          `json:"queue_p50_ms"`
	QueueP99   float64          `json:"queue_p99_ms"`
	LatencyP50 float64          `json:"latency_p50_ms"` // until the answer is back
	LatencyP99 float64          `json:"latency_p99_ms"`
	Batch      float64          `json:"batch_mean"`
}

// LateReason names requests that were answered after their deadline; other
// reasons are wire.Reason's.
const LateReason = "late"

// Reasons are the keys that Summary.Bad may have, in one order.
func Reasons() []string {
	out := []string{LateReason}
	for r := range wire.ReasonCount {
		if wire.Reason(r) != wire.ReasonNone {
			out = append(out, wire.Reason(r).String())
		}
	}
	return out
}

// Simulate runs the scenario once. watch is told what happens; stop, if not
// nil, is asked now and then whether to give up.
func (p *Plan) Simulate(watch sim.Observer, stop func() bool) (*Outcome, error) {
	t := newTally(p)
	r, err := p.prepare(p.Scenario.Rate, p.Scenario.Seed, t.watching(watch))
	if err != nil {
		return nil, err
	}
	result, err := r.simulate(stop)
	if err != nil {
		return nil, err
	}
	return p.outcome(p.Scenario.Seed, result, t), nil
}

// blank is a record without a result.
func (p *Plan) blank(seed uint64) *Outcome {
	o := &Outcome{Core: sim.CoreVersion, Scenario: p.Scenario, Models: []Summary{}, GPUs: []float64{}, Bounds: p.bounds()}
	o.Scenario.Seed = seed
	return o
}

// outcome makes the record of a result.
func (p *Plan) outcome(seed uint64, r *sim.Result, t *tally) *Outcome {
	o := p.blank(seed)
	for i := range r.Models {
		m := &t.models[i]
		s := summarise(&r.Models[i], r, m.queueTime, m.latency)
		s.Model = p.models[i].Name
		if m.batches > 0 {
			s.Batch = float64(m.requests) / float64(m.batches)
		}
		o.Models = append(o.Models, s)
	}
	o.All = summarise(&r.All, r, r.QueueTime, t.latency())
	o.All.Batch = r.BatchMean()
	for _, b := range r.Busy {
		if b > 0 {
			o.GPUsUsed++
		}
		o.GPUs = append(o.GPUs, b.Seconds()/r.Span.Seconds())
	}
	o.Hopeless, o.Tuning = r.Hopeless, tuning(r)
	o.Need, o.NeedPeak = r.NeedMean, r.NeedPeak
	o.GPUsMost = most(r.Busy)
	o.GPUBusy = r.Utilisation(len(r.Busy))
	o.Lost = r.Lost.Seconds() / r.Span.Seconds() / float64(len(r.Busy))
	return o
}

// most is how many GPUs, from id 0 on, carry MostShare of the GPU time.
func most(busy []mono.Dur) int {
	var all, sum mono.Dur
	for _, b := range busy {
		all += b
	}
	for i, b := range busy {
		if sum += b; float64(sum) >= MostShare*float64(all) && sum > 0 {
			return i + 1
		}
	}
	return 0
}
func summarise(c *sim.Counts, r *sim.Result, queueTime, latency []int64) Summary {
	s := Summary{Arrived: c.Arrived, Offered: float64(c.Arrived) / r.Span.Seconds(), Goodput: float64(c.Served) / r.Span.Seconds(), BadRate: c.BadRate(), Bad: map[string]int64{}}
	if c.Late > 0 {
		s.Bad[LateReason] = c.Late
	}
	for reason, n := range c.Dropped {
		if n > 0 {
			s.Bad[wire.Reason(reason).String()] = n
		}
	}
	ms := func(times []int64, q float64) float64 {
		return (mono.Dur(sim.Percentile(times, q)) * sim.QueueUnit).Millis()
	}
	s.QueueP50, s.QueueP99 = ms(queueTime, 0.5), ms(queueTime, 0.99)
	s.LatencyP50, s.LatencyP99 = ms(latency, 0.5), ms(latency, 0.99)
	return s
}
