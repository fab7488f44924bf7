package cold

import (
	"context"
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Result is what a run found.
type Result struct {
	Config          Config
	Interrupted     bool `json:",omitzero"`
	Sent            int64
	Lost            int64 // without any answer
	Duplicates      int64 // answers beyond the first
	NotSent         int64 // too many were open
	LagMean, LagMax float64
	Live            Counts
	Simulated       *Counts `json:",omitempty"` // of the same arrivals; nil: interrupted
	Bound           Bound
	Spans           []Counts // live
	SpansSimulated  []Counts `json:",omitempty"`
	SpansBound      []Bound
	Infer, InferEnd Prediction // batches: their length, and their end
	Load, LoadEnd   Prediction
	LoadsFailed     int64
	BatchesReturned int64 // that a backend gave back whole: late, or without their weights
	Claims          []Claim
}

// Bound is requests/s that could be served in time at best: of what came, and by the links and by the GPUs alone.
type Bound struct{ All, Links, GPUs float64 }

// What is to be shown.
const (
	inTimeLeast = 0.999
	errorMost   = 1.0 // ms
	ratioLeast  = 0.95
	lagMost     = 2.0 // ms: who sends later than that on average has not offered the load
)

// beside adds the simulation and the bound, and judges.
func (r *Result) beside(ctx context.Context, total mono.Dur) error {
	if err := r.bounds(); err != nil {
		return err
	}
	if ctx.Err() == nil {
		all, spans, err := r.Config.simulate(total, func() bool { return ctx.Err() != nil })
		switch {
		case ctx.Err() != nil:
			r.Interrupted = true
		case err != nil:
			return fmt.Errorf("the simulation beside it: %w", err)
		default:
			r.Simulated, r.SpansSimulated = &all, spans
		}
	}
	r.judge()
	return nil
}

func (r *Result) bounds() (err error) {
	for i := range r.Spans {
		b := Bound{}
		if b.All, b.Links, b.GPUs, err = r.Config.allowed(r.Spans[i].From, r.Spans[i].To); err != nil {
			return err
		}
		r.SpansBound = append(r.SpansBound, b)
		part := (r.Spans[i].To - r.Spans[i].From) / r.Live.To
		r.Bound.All += part * b.All
		r.Bound.Links += part * b.Links
		r.Bound.GPUs += part * b.GPUs
	}
	return nil
}

// Ratio is the goodput to the simulation's; NaN without one.
func (r *Result) Ratio() float64 {
	if r.Simulated == nil {
		return math.NaN()
	}
	return r.Live.Goodput() / r.Simulated.Goodput()
}

func (r *Result) claim(what, want, found string, holds bool) {
	r.Claims = append(r.Claims, Claim{what, want, found, holds})
}

func (r *Result) judge() {
	r.claim("answers of each request", "one", fmt.Sprintf("%d without, %d too many", r.Lost, r.Duplicates), r.Lost == 0 && r.Duplicates == 0)
	r.claim("the load was offered", fmt.Sprintf("sent <= %g ms late on average, all of it", lagMost), fmt.Sprintf("%.2f ms, %d not sent", r.LagMean, r.NotSent), r.LagMean <= lagMost && r.NotSent == 0)
	of, share := "of the requests that were not refused, in time", r.Live.NotRefusedInTime()
	if r.Config.Share > 0 {
		of, share = "of all requests, in time", r.Live.Share(r.Live.InTime)
	}
	r.claim(of, fmt.Sprintf(">= %g %%", 100*inTimeLeast), fmt.Sprintf("%.4f %%", 100*share), share >= inTimeLeast)
	for _, p := range []struct {
		what string
		of   *Prediction
	}{{"length of batches (INFER), p99 of its error", &r.Infer}, {"length of loads (LOAD), p99 of its error", &r.Load}} {
		r.claim(p.what, fmt.Sprintf("<= %g ms", errorMost), fmt.Sprintf("%.3f ms over, %.3f ms under, of %d", p.of.OverP99, p.of.UnderP99, p.of.N), p.of.N > 0 && max(p.of.OverP99, p.of.UnderP99) <= errorMost)
	}
	if r.Simulated != nil {
		r.claim("goodput, to the simulation's", fmt.Sprintf(">= %g", ratioLeast), fmt.Sprintf("%.4f (%.1f and %.1f r/s)", r.Ratio(), r.Live.Goodput(), r.Simulated.Goodput()), r.Ratio() >= ratioLeast)
	}
}

// Failed is why the run shows not what it should; "": it does.
func (r *Result) Failed() string { return failed(r.Interrupted, r.Claims) }
