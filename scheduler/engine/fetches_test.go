package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	row, picture = 1 << 10, 600 << 10
	fetchSeed    = 3
)

// way is what inputs pay on it; one batch in twenty is late.
type way struct{ base, perMiB, scatter mono.Dur }

func (w way) took(r *rand.Rand, bytes int64) mono.Dur {
	took := w.base + mono.Dur(float64(w.perMiB)*float64(bytes)/(1<<20)) + mono.Dur(r.Float64()*float64(w.scatter))
	if r.IntN(20) == 0 {
		took += mono.Dur(r.ExpFloat64() * 20 * float64(w.scatter))
	}
	return took
}

// of is what a batch is said to take.
func of(base, perMiB mono.Dur, bytes int64) float64 {
	return float64(base) + float64(perMiB)*float64(bytes)/(1<<20)
}

// What each batch pays and what a MiB takes are told apart, also of what few batches have.
func TestFetches(t *testing.T) {
	w := way{200 * mono.Microsecond, 400 * mono.Microsecond, 60 * mono.Microsecond}
	for name, rare := range map[string]int{"pictures": 1, "a picture in three": 3, "a picture in a hundred": 100} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(fetchSeed, 0))
			var f fetches
			for range 5000 {
				item := int64(row)
				if r.IntN(rare) == 0 {
					item = picture
				}
				bytes := int64(1+r.IntN(16)) * item
				f.add(w.took(r, bytes), bytes)
			}
			base, perMiB := f.bounds()
			for _, bytes := range []int64{row, picture, 32 * picture} {
				got, want := of(base, perMiB, bytes), of(w.base, w.perMiB, bytes)+float64(w.scatter)/2
				if math.Abs(got-want) > 0.15*want {
					t.Errorf("seed %d: %d bytes take %v, want %v (%v and %v per MiB)", fetchSeed, bytes, mono.Dur(got), mono.Dur(want), base, perMiB)
				}
			}
		})
	}
}

// Rows tell nothing of pictures, nor does one picture that came late.
func TestFetchesDoNotExtrapolate(t *testing.T) {
	w := way{200 * mono.Microsecond, 400 * mono.Microsecond, 60 * mono.Microsecond}
	far := 0
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		var f fetches
		for range 2000 {
			bytes := int64(1+r.IntN(16)) * row
			f.add(w.took(r, bytes), bytes)
		}
		f.add(5*mono.Millisecond, picture)
		base, perMiB := f.bounds()
		if got := of(base, perMiB, 16*picture); got > 8e6 {
			far++
		}
	}
	if far > 10 {
		t.Errorf("of 100 windows %d say that 16 pictures take more than 8 ms (they take 4)", far)
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
	f.add(-1, 5)
	f.add(5, -1)
	if base, perMiB := f.bounds(); base != 3*mono.Millisecond || perMiB != 0 {
		t.Errorf("batches of one size tell %v and %v per MiB", base, perMiB)
	}
}

// What was long ago is forgotten.
func TestFetchesForget(t *testing.T) {
	var f fetches
	for range 2 * fetchLeast {
		f.add(20*mono.Millisecond, picture)
	}
	for range fetchAge {
		f.add(mono.Millisecond, row)
	}
	if base, perMiB := f.bounds(); base != mono.Millisecond || perMiB != 0 {
		t.Errorf("%v and %v per MiB", base, perMiB)
	}
}
