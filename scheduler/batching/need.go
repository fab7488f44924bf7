package batching

import (
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Need is the GPUs that deferral alone would keep busy with the model's
// requests: at rate r, batches gather b = 1 + r*(SLO - l(b)) requests and take
// r*l(b)/b of GPU time per time. It follows from what arrives, and from nothing
// that the scheduler does: how early batches start does not change it.
//
// perNano is r in requests per nanosecond.
func Need(p *profile.Profile, slo mono.Dur, perNano float64) float64 {
	if perNano <= 0 {
		return 0
	}
	b, part := gathers(p, slo, perNano)
	cost := func(b int) float64 { return float64(p.Latency(b)) / float64(b) }
	if part == 0 {
		return perNano * cost(b)
	}
	return perNano * (cost(b) + float64(part*(cost(b+1)-cost(b))))
}

// Gathered is the batch size that Need reckons with: b, and part of the way to b + 1.
func Gathered(p *profile.Profile, slo mono.Dur, perNano float64) float64 {
	b, part := gathers(p, slo, max(0, perNano))
	return float64(b) + part
}

// gathers is the largest b that gathers in time, and how far past it the batch comes.
func gathers(p *profile.Profile, slo mono.Dur, perNano float64) (b int, part float64) {
	low, high := 1, p.MaxBatch()
	for low < high {
		mid := (low + high + 1) / 2
		if float64(mid) <= 1+float64(perNano*float64(slo-p.Latency(mid))) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	if b = low; b == p.MaxBatch() {
		return b, 0
	}
	// b + part is where the line through l(b) and l(b+1) meets 1 + r*(SLO - l).
	over := 1 + float64(perNano*float64(slo-p.Latency(b))) - float64(b)
	step := 1 + float64(perNano*float64(p.Latency(b+1)-p.Latency(b)))
	return b, min(1, max(0, over/step))
}

// spans counts a model's arrivals by spans of time: unlike the rate in arrivals, it
// does not depend on when batches start.
type spans struct {
	ends          mono.Time // of the present span
	whole         bool      // the present span is counted from its beginning on
	fresh         float64   // requests in it
	count, weight float64   // decayed requests, and spans, before it
}

const (
	// needSpan is short against what an autoscaler sees.
	needSpan = mono.Second
	// needDecay is what a span counts of the one after it: rates average over five
	// seconds.
	needDecay = 0.8
	// needSpansMax: after so many spans without a request nothing is known any more.
	needSpansMax = 64
)

// request takes an arrival; true when a span has ended, so perNano may have changed.
func (s *spans) request(now mono.Time) (ended bool) {
	if now >= s.ends {
		ended = s.roll(now)
	}
	s.fresh++
	return ended
}

func (s *spans) roll(now mono.Time) (ended bool) {
	passed := int64(now.Sub(s.ends) / needSpan) // spans without a request
	if s.whole {
		s.count, s.weight = float64(s.count*needDecay)+s.fresh, float64(s.weight*needDecay)+1
		for range min(passed, needSpansMax) {
			s.count, s.weight = s.count*needDecay, float64(s.weight*needDecay)+1
		}
		ended = true
	}
	s.fresh, s.whole = 0, s.ends != 0
	s.ends = mono.Time((int64(now)/int64(needSpan) + 1) * int64(needSpan))
	return ended
}

// perNano is the rate over the spans that have ended; 0 when not known.
func (s *spans) perNano() float64 {
	if s.weight == 0 {
		return 0
	}
	return s.count / s.weight / float64(needSpan)
}
