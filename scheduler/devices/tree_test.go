package devices

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The tree of free times against a plain search.
func TestTreeAgainstSearch(t *testing.T) {
	const seed = 13
	rnd := rand.New(rand.NewPCG(seed, 0))
	var all tree
	var free []mono.Time
	for i := range 5000 {
		if len(free) < 1+i/40 {
			free = append(free, mono.Never)
			all.grow(len(free))
		}
		id := rnd.IntN(len(free))
		free[id] = mono.Time(rnd.Int64N(50))
		if rnd.IntN(4) == 0 {
			free[id] = mono.Never
		}
		all.set(uint32(id), free[id])
		when := mono.Time(rnd.Int64N(50))
		want := slices.IndexFunc(free, func(f mono.Time) bool { return f <= when })
		if got, ok := all.firstBy(when); ok != (want >= 0) || ok && int(got) != want {
			t.Fatalf("seed %d step %d: first by %d is %d %v, want %d", seed, i, when, got, ok, want)
		}
		least := slices.Min(free)
		at := all.soonest()
		if got, _ := all.firstBy(at); at != least || at != mono.Never && int(got) != slices.Index(free, least) {
			t.Fatalf("seed %d step %d: earliest %d at %v, want %v", seed, i, got, at, least)
		}
	}
}

func TestSoonestBelow(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 6))
	for round := range 2000 {
		var all tree
		free := make([]mono.Time, r.IntN(40))
		all.grow(len(free))
		for i := range free {
			if free[i] = mono.Time(r.IntN(100)); r.IntN(3) == 0 {
				free[i] = mono.Never
			}
			all.set(uint32(i), free[i])
		}
		for _, n := range []uint32{0, 1, uint32(r.IntN(70)), uint32(len(free)), uint32(all.size), math.MaxUint32} {
			want := mono.Never
			for i, at := range free {
				if uint32(i) < n {
					want = min(want, at)
				}
			}
			if got := all.soonestBelow(n); got != want {
				t.Fatalf("seed %d, round %d: soonest below %d of %v is %v, want %v", seed, round, n, free, got, want)
			}
		}
	}
}
