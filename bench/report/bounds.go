package report

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Staggered is the bound on one model's goodput when the GPUs finish at evenly
// spread times (Symphony, section 3.3): the largest batch with
// (1 + 1/N)*l(b) <= SLO, and N*b/l(b) requests/s.
func Staggered(p *profile.Profile, slo mono.Dur, gpus int) (batch int, rate float64) {
	return bound(p, slo*mono.Dur(gpus)/mono.Dur(gpus+1), gpus)
}

// Uncoordinated is the bound when a request may wait for a whole batch, as in
// Nexus (section 5.3): 2*l(b) <= SLO.
func Uncoordinated(p *profile.Profile, slo mono.Dur, gpus int) (batch int, rate float64) {
	return bound(p, slo/2, gpus)
}

func bound(p *profile.Profile, budget mono.Dur, gpus int) (batch int, rate float64) {
	batch = p.Largest(budget, 0)
	if batch == 0 {
		return 0, 0
	}
	return batch, float64(gpus) * float64(batch) / p.Latency(batch).Seconds()
}

// Load is one model of a mix.
type Load struct {
	Profile *profile.Profile
	SLO     mono.Dur
	Share   float64 // of all requests; they sum to 1
}

// Fluid is the bound on a mix's total goodput when GPUs never idle and each
// model gathers for as long as its SLO allows. A batch of b whose first request
// has just time for it is joined by what arrives before it starts:
// b = 1 + lambda*(SLO - l(b)). The GPU time that all models need, the sum of
// lambda*l(b)/b, is at most the number of GPUs. A GPU that is free at just that
// instant is assumed.
//
// It holds for Poisson arrivals and more even ones, of which lambda times a
// span is what comes in a span that begins with a request. Bursts break it: of
// requests that come twenty at a time (Gamma, shape 0.05) a batch has twenty at
// once, waits for nobody, and has more than lambda promises. So no figure
// stands beside goodputs of burstier arrivals, and of rates that change; as the
// begin of a search it still serves.
//
// The need rises with the rate, so the largest rate is found by bisection.
func Fluid(models []Load, gpus int) float64 {
	low, high := 0.0, 1.0
	for Need(models, high) <= float64(gpus) {
		low, high = high, 2*high
		if high > 1e12 {
			return math.Inf(1) // models without requests
		}
	}
	for range 60 {
		mid := (low + high) / 2
		if Need(models, mid) <= float64(gpus) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// Need is the GPUs that a total rate keeps busy in the mix, as Fluid has it.
func Need(models []Load, rate float64) float64 {
	sum := 0.0
	for _, m := range models {
		lambda := rate * m.Share
		if lambda <= 0 {
			continue
		}
		b := m.gathered(lambda)
		sum += lambda * latency(m.Profile, b) / b
	}
	return sum
}

// gathered is the b of Fluid: at least 1, at most the largest batch. The right
// side falls as b grows, so there is one.
func (m *Load) gathered(lambda float64) float64 {
	low, high := 1.0, float64(m.Profile.MaxBatch())
	for range 60 {
		mid := (low + high) / 2
		if mid <= 1+float64(lambda*(m.SLO.Seconds()-latency(m.Profile, mid))) {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// latency is l(b) in seconds, on the line between whole batch sizes.
func latency(p *profile.Profile, b float64) float64 {
	whole := math.Floor(b)
	l := p.Latency(int(whole)).Seconds()
	if whole >= float64(p.MaxBatch()) {
		return l
	}
	return l + float64((b-whole)*(p.Latency(int(whole)+1).Seconds()-l))
}
