// Package report turns a load run's observations into what people and
// programs read: offered, goodput, bad rate by reason, percentiles, batch
// sizes, and a verdict.
//
// Latencies count from the instant a request was meant to leave (coordinated
// omission is in them). Dropped and late requests are bad; percentiles are
// those of the served ones, and the bad rate stands beside them.
package report

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Observation is one answered request.
type Observation struct {
	Model     int
	Latency   mono.Dur
	Reason    string // "": served in time
	BatchSize int
}

// Recorder gathers observations; safe for concurrent use.
type Recorder struct {
	names []string

	mu      sync.Mutex // Guards what follows.
	latency []*Spans
	served  []int64
	bad     []map[string]int64
	batches map[int]int64
}

// NewRecorder makes a Recorder for models of these names.
func NewRecorder(names []string) *Recorder {
	r := &Recorder{names: names, batches: map[int]int64{}}
	for range names {
		r.latency = append(r.latency, NewSpans(mono.Microsecond))
		r.served = append(r.served, 0)
		r.bad = append(r.bad, map[string]int64{})
	}
	return r
}

// Add takes an observation.
func (r *Recorder) Add(o Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Reason != "" {
		r.bad[o.Model][o.Reason]++
	} else {
		r.served[o.Model]++
	}
	if o.Reason == "" || o.Reason == "late" {
		r.latency[o.Model].Add(o.Latency)
		r.batches[o.BatchSize]++
	}
}

// Summary is one model's, or all models' together.
type Summary struct {
	Model    string           `json:"model,omitempty"`
	Answered int64            `json:"answered"`
	Served   int64            `json:"served"` // in time
	Goodput  float64          `json:"goodput_rps"`
	BadRate  float64          `json:"bad_rate"`
	Bad      map[string]int64 `json:"bad,omitempty"` // by reason
	P50      float64          `json:"p50_ms"`
	P99      float64          `json:"p99_ms"`
	P999     float64          `json:"p999_ms"`
	Max      float64          `json:"max_ms"`
}

// Report is a whole run.
type Report struct {
	Config      map[string]any     `json:"config"`
	Seconds     float64            `json:"seconds"`
	Offered     float64            `json:"offered_rps"` // as the schedule had it
	Sent        int64              `json:"sent"`        // with the warm-up
	Lost        int64              `json:"lost"`        // requests without any answer
	Duplicates  int64              `json:"duplicates"`  // answers beyond the first
	LagMean     float64            `json:"generator_lag_mean_ms"`
	LagMax      float64            `json:"generator_lag_max_ms"`
	All         Summary            `json:"all"`
	Models      []Summary          `json:"models"`
	BatchMean   float64            `json:"batch_mean"` // of the batches that requests ran in, weighed by requests
	Batches     map[int]int64      `json:"batch_sizes"`
	GPUBusy     map[string]float64 `json:"gpu_busy,omitempty"`    // share, by pool/gpu
	Interrupted bool               `json:"interrupted,omitempty"` // before its end; Seconds is what was counted
	Valid       bool               `json:"valid"`                 // the verdict is about the SLO
	Verdict     string             `json:"verdict"`
}

// Summarise makes the summaries; seconds is the counted span.
func (r *Recorder) Summarise(seconds float64) (all Summary, models []Summary, batches map[int]int64, batchMean float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	total := NewSpans(mono.Microsecond)
	all.Bad = map[string]int64{}
	for i, name := range r.names {
		s := Summary{Model: name, Served: r.served[i], Bad: map[string]int64{}}
		s.Answered = s.Served
		for reason, n := range r.bad[i] {
			s.Bad[reason] = n
			s.Answered += n
			all.Bad[reason] += n
		}
		s.fill(r.latency[i], seconds)
		models = append(models, s)
		total.Merge(r.latency[i])
		all.Served += s.Served
		all.Answered += s.Answered
	}
	all.fill(total, seconds)
	batches = map[int]int64{}
	var requests, weighed int64
	for b, n := range r.batches {
		batches[b] = n
		requests, weighed = requests+n, weighed+n*int64(b)
	}
	if requests > 0 {
		batchMean = float64(weighed) / float64(requests)
	}
	return all, models, batches, batchMean
}

func (s *Summary) fill(h *Spans, seconds float64) {
	s.Goodput = float64(s.Served) / seconds
	if s.Answered > 0 {
		s.BadRate = 1 - float64(s.Served)/float64(s.Answered)
	}
	s.P50, s.P99, s.P999, s.Max = h.Percentile(50).Millis(), h.Percentile(99).Millis(), h.Percentile(99.9).Millis(), h.Max().Millis()
}

// lagMax is how far the generator's mean may lag behind its schedule.
const lagMax = 2.0 // ms

// Judge writes the verdict: INTERRUPTED when the run was, INVALID when the run says nothing about the
// server, BROKEN when requests had no answer or two, else whether every model kept
// its p99 within its SLO.
func (p *Report) Judge() {
	switch {
	case p.Duplicates > 0:
		p.Verdict = fmt.Sprintf("BROKEN: %d answers too many", p.Duplicates)
	case p.Interrupted:
		p.Verdict = fmt.Sprintf("INTERRUPTED after %.1f s: this is what had been counted by then", p.Seconds)
	case p.All.Answered == 0:
		p.Verdict = "INVALID: nothing was answered"
	case p.All.Bad["generator_full"] > 0:
		p.Verdict = fmt.Sprintf("INVALID: %d requests were not sent because too many were open; raise --outstanding", p.All.Bad["generator_full"])
	case p.LagMean > lagMax:
		p.Verdict = fmt.Sprintf("INVALID: the generator lagged %.1f ms behind its schedule on average; give it a core of its own or offer less", p.LagMean)
	case p.Lost > 0:
		p.Verdict = fmt.Sprintf("BROKEN: %d requests without an answer", p.Lost)
	default:
		p.Valid, p.Verdict = true, p.judgeModels()+p.few()
	}
}

func (p *Report) judgeModels() string {
	for _, m := range p.Models {
		if m.BadRate > 0.01 {
			return fmt.Sprintf("OVER the SLO: %.2f %% of %s's requests are bad, 1 %% is allowed", 100*m.BadRate, m.Model)
		}
	}
	return "WITHIN the SLO: every model has at most 1 % bad requests, every request one answer"
}

// fewest is how many requests of a model a p99 is told from: 10 of them are beyond it.
const fewest = 1000

// few says, beside the verdict, where it hangs on a handful of requests; empty if nowhere.
func (p *Report) few() string {
	least, n := Summary{}, 0
	for _, m := range p.Models {
		if m.Answered >= fewest {
			continue
		}
		if n == 0 || m.Answered < least.Answered {
			least = m
		}
		n++
	}
	switch {
	case n == 0:
		return ""
	case len(p.Models) == 1:
		return fmt.Sprintf("; too few requests to tell a p99: %d", least.Answered)
	}
	return fmt.Sprintf("; too few requests to tell a p99 of %d of %d models: %s had %d", n, len(p.Models), least.Model, least.Answered)
}
