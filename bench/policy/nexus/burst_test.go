package nexus

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// 200 r/s are 5 in half an SLO of 50 ms, with a deviation of sqrt(5): 2.33 of
// those in 25 ms are 208.4 r/s. Ten times the rate has sqrt(10) times as much
// on top, not ten times.
func TestBurstOf(t *testing.T) {
	for _, c := range []struct{ rate, want float64 }{{200, 208.4}, {2000, 659.0}, {0, 0}} {
		if got := burstOf(c.rate, 50*mono.Millisecond); math.Abs(got-c.want) > 0.1 {
			t.Errorf("%v r/s: burst %v, want %v", c.rate, got, c.want)
		}
	}
}

// l(b) = b + 5 ms, SLO 25 ms, 7/12 ms = 583.3 r/s on a GPU. 500 r/s and 50 fit
// two GPUs, so the bursts are added; 1,500 do not, and stay as they are.
func TestBurstsWhereTheRatesFit(t *testing.T) {
	for _, c := range []struct{ rate, want float64 }{{500, 600}, {1500, 1500}} {
		p := plannerOf(linear(t, 1, 5, 25, c.rate), linear(t, 1, 5, 25, 50))
		p.sessions[0].burst = 100
		p.addBursts(2)
		if got := p.sessions[0].rate; got != c.want {
			t.Errorf("%v r/s are planned as %v, want %v", c.rate, got, c.want)
		}
	}
}

// The scheduler's own plan has the bursts. l(b) = b + 5 ms, SLO 25 ms, ten GPUs
// of 583.3 r/s. By the rates alone, 9 to 1, one GPU is enough for the second
// model, and that is its plan where the rates do not fit. Where they do, the
// bursts make 900 r/s to 1,525 and 100 to 308: with eight GPUs for the first,
// the second fills 1.6.
func TestPlanHasBursts(t *testing.T) {
	for _, c := range []struct {
		rate float64
		want [2]int
	}{{9000, [2]int{9, 1}}, {900, [2]int{8, 2}}} {
		s := planned(t, batching.Delay{}, 10, linear(t, 1, 5, 25, c.rate), linear(t, 1, 5, 25, c.rate/9))
		got := [2]int{}
		for _, n := range s.plan() {
			for _, k := range n.items {
				got[k.model]++
			}
		}
		if got != c.want {
			t.Errorf("%v and %v r/s: %v GPUs, want %v", c.rate, c.rate/9, got, c.want)
		}
	}
}

// A bound of the network's delay above the SLO leaves the burst a number: the
// model is planned for 100 + 208.4 r/s.
func TestBurstWithLongDelay(t *testing.T) {
	s := planned(t, batching.Delay{Ctrl: 30 * mono.Millisecond}, 1, linear(t, 1, 5, 25, 100))
	if nodes := s.plan(); len(nodes) != 1 || math.Abs(s.planner.sessions[0].rate-308.4) > 0.1 {
		t.Errorf("%v r/s on %d GPUs, want 308.4 on one", s.planner.sessions[0].rate, len(nodes))
	}
}

// planned is a scheduler that has yet to make its first plan.
func planned(t *testing.T, delay batching.Delay, gpus int, models ...policy.Model) *Scheduler {
	s := New(policy.Config{Delay: delay}, Options{})
	var out policy.Out
	for i, m := range models {
		s.AddModel(wire.ModelID(i), m)
	}
	for i := range gpus {
		s.AddGPU(0, wire.GPUID(i), &out)
	}
	return s
}
