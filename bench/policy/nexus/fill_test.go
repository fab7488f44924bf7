package nexus

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
)

// A few random sessions on few GPUs: plans fit beyond factors that do not, and
// fill finds what bisection from the first edge alone misses. Each factor on a
// grid of 1 % above the edge is tried here as well, and none that fits is above
// what fill planned for.
func TestScaleLooksBeyondTheFirstEdge(t *testing.T) {
	beyond := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := &planner{}
		total := 0.0
		for range 2 + r.IntN(5) {
			m := linear(t, 1+4*r.Float64(), 20*r.Float64(), 1, 0)
			slo := 2*m.Profile.Latency(1) + m.Profile.Latency(1+r.IntN(20))
			rate := 20 + 400*r.Float64()
			total += rate
			p.sessions = append(p.sessions, newSession(m.Profile, slo, batching.Delay{}, rate))
		}
		gpus := 1 + r.IntN(8)
		nodes := p.scale(gpus)
		if nodes == nil {
			continue // not even the lowest rates fit
		}
		planned := 0.0
		for _, rate := range ratesOf(nodes, len(p.sessions)) {
			planned += rate
		}
		planned /= total
		edge := firstEdge(p, gpus)
		if planned > 1.05*edge {
			beyond++
		}
		for factor, step := edge, 0; step < 100; step++ {
			factor *= 1.01
			if _, ok := p.pack(factor, gpus); ok && factor > planned*(1+1e-6) {
				t.Fatalf("seed %d: planned for %.4f of the rates, %.4f fit", seed, planned, factor)
			}
		}
	}
	if beyond < 10 {
		t.Errorf("%d of 300 plans lie beyond the first edge: the test has lost its case", beyond)
	}
}

// firstEdge is where doubling, halving and bisection end.
func firstEdge(p *planner, gpus int) float64 {
	fits := func(factor float64) bool { _, ok := p.pack(factor, gpus); return ok }
	low := 1.0
	for !fits(low) {
		low /= 2
	}
	high := 2 * low
	for fits(high) {
		low, high = high, 2*high
	}
	for range 30 {
		if middle := (low + high) / 2; fits(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
