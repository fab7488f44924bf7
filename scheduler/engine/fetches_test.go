package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// What each batch pays and what a MiB takes are told apart, through scatter that one in twenty batches has.
func TestFetches(t *testing.T) {
	const base, perMiB = 200 * mono.Microsecond, 400 * mono.Microsecond
	for name, c := range map[string]struct {
		item         int64
		base, perMiB mono.Dur
		off          float64 // of what a batch of 32 is said to take, at most
	}{
		"pictures": {600 << 10, base, perMiB, 0.1},
		"rows":     {1 << 10, base, perMiB, 0.15},
		"at once":  {600 << 10, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 0))
			var f fetches
			for range 1000 {
				bytes := int64(1+r.IntN(16)) * c.item
				took := c.base + mono.Dur(float64(c.perMiB)*float64(bytes)/(1<<20))
				if took > 0 && r.IntN(20) == 0 {
					took += mono.Dur(r.ExpFloat64() * float64(mono.Millisecond))
				}
				f.add(took, bytes)
			}
			gotBase, gotPerMiB := f.bounds()
			of := func(base, perMiB mono.Dur) float64 {
				return float64(base) + float64(perMiB)*float64(32*c.item)/(1<<20)
			}
			got, want := of(gotBase, gotPerMiB), of(c.base, c.perMiB)
			if math.Abs(got-want) > c.off*want {
				t.Errorf("seed 3: a batch of 32 takes %v, want %v (%v and %v per MiB)", mono.Dur(got), mono.Dur(want), gotBase, gotPerMiB)
			}
		})
	}
}

// Where all batches are alike, or hardly any came, no size is said to cost anything.
func TestFetchesTellNothing(t *testing.T) {
	var f fetches
	f.add(mono.Millisecond, 1<<20)
	f.add(2*mono.Millisecond, 2<<20)
	if base, perMiB := f.bounds(); base != 0 || perMiB != 0 {
		t.Errorf("two batches tell %v and %v per MiB", base, perMiB)
	}
	for range 300 {
		f.add(3*mono.Millisecond, 1<<20)
	}
	if base, perMiB := f.bounds(); base != 3*mono.Millisecond || perMiB != 0 {
		t.Errorf("batches of one size tell %v and %v per MiB", base, perMiB)
	}
	f.add(-1, 5)
	f.add(5, -1)
	if base, perMiB := f.bounds(); base != 3*mono.Millisecond || perMiB != 0 {
		t.Errorf("after nonsense: %v and %v per MiB", base, perMiB)
	}
}
