package nexus

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
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
