package rdma

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const us = mono.Microsecond

// The rule as the type's comment has it: waits that a spin would have covered
// double it from the least up to the most; one too long for any halves it, and
// below the least there is none.
func TestHaltLearns(t *testing.T) {
	h := halt{most: 50 * us}
	for i, want := range []mono.Dur{2, 4, 8, 16, 32, 50, 50} {
		h.waited(10 * us)
		if h.spin != want*us {
			t.Errorf("after %d short waits it spins %v, want %v", i+1, h.spin, want*us)
		}
	}
	for i, want := range []mono.Dur{25_000, 12_500, 6_250, 3_125, 0, 0} {
		h.waited(51 * us)
		if h.spin != want {
			t.Errorf("after %d long waits it spins %v, want %v", i+1, h.spin, want)
		}
	}
	h.waited(50 * us) // just what a spin may cover
	if h.spin != haltFirst {
		t.Errorf("after a wait of the longest spin: %v, want %v", h.spin, haltFirst)
	}
}

// A NIC that never spins, whatever it meets (PollEvent).
func TestHaltOfNothingNeverSpins(t *testing.T) {
	h := halt{}
	for _, d := range []mono.Dur{0, 1, us, mono.Second} {
		if h.waited(d); h.spin != 0 {
			t.Errorf("spins %v after a wait of %v", h.spin, d)
		}
	}
}

// Whatever comes, a spin is none, or between the least and the most; steady
// traffic gets the most of it, and an idle time none, each within 6 waits.
func TestHaltStaysInBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := halt{most: 50 * us}
	for range 10_000 {
		if r.IntN(2) == 0 {
			h.waited(mono.Dur(r.Int64N(int64(200 * us))))
		} else {
			h.lull()
		}
		if h.spin != 0 && (h.spin < haltFirst || h.spin > h.most) {
			t.Fatalf("spin of %v", h.spin)
		}
		busy, idle := h, h
		for range 6 {
			busy.waited(us)
			idle.lull()
		}
		if busy.spin != h.most || idle.spin != 0 {
			t.Fatalf("from %v six waits lead to %v, six lulls to %v", h.spin, busy.spin, idle.spin)
		}
	}
}
