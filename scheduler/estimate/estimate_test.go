package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	us = mono.Microsecond
	ms = mono.Millisecond
)

// Clockwork, section 5.3: of the last ten, 0.91 of the longest and 0.09 of the second.
func TestWindowOfTen(t *testing.T) {
	var w Window
	if w.P99() != 0 || w.Least() != 0 || w.Len() != 0 {
		t.Errorf("empty: %v of %d", w.P99(), w.Len())
	}
	for i := range mono.Dur(10) {
		w.Add((i + 1) * ms)
	}
	if w.P99() != 9910*us || w.Len() != 10 {
		t.Errorf("1 to 10 ms: %v of %d, want 9.91 ms of 10", w.P99(), w.Len())
	}
	w.Add(100 * ms) // 2 to 10, and 100
	if w.P99() != 91900*us {
		t.Errorf("with 100 ms: %v, want 91.9 ms", w.P99())
	}
	for range 9 {
		w.Add(ms)
	}
	if w.P99() != 91090*us {
		t.Errorf("100 ms as the oldest: %v, want 91.09 ms", w.P99())
	}
	if w.Add(ms); w.P99() != ms {
		t.Errorf("it has left: %v, want 1 ms", w.P99())
	}
	if s := Seeded(8 * ms); s.P99() != 8*ms || s.Measured() != 0 {
		t.Errorf("a seed alone: %v, %d measured", s.P99(), s.Measured())
	}
}

// The window against sorting the last ten and interpolating at 0.99(n-1).
func TestWindowAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(3600*mono.Second)), 1, 40).Draw(t, "durations")
		var w Window
		for _, d := range all {
			w.Add(mono.Dur(d))
		}
		last := slices.Sorted(slices.Values(all[max(0, len(all)-Size):]))
		at := 0.99 * float64(len(last)-1)
		low := int(at)
		high := min(low+1, len(last)-1)
		want := float64(last[low]) + (at-float64(low))*float64(last[high]-last[low])
		if math.Abs(float64(w.P99())-want) > 1 {
			t.Fatalf("p99 %d, want %f", w.P99(), want)
		}
		if int64(w.Least()) != last[0] {
			t.Fatalf("least %d, want %d", w.Least(), last[0])
		}
		if w.Len() != len(last) || w.Measured() != min(len(all)-1, Size) {
			t.Fatalf("%d count, %d measured, of %d", w.Len(), w.Measured(), len(all))
		}
	})
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		from, to Clock
		want     mono.Dur
	}{{1380, 1380, ms}, {0, 0, ms}, {690, 1380, ms / 2}, {690, 0, ms / 2}, {0, 690, 2 * ms}, {1530, 1380, 1108696}} {
		if got := Scale(ms, c.from, c.to); got != c.want {
			t.Errorf("1 ms at %d is %v at %d, want %v", c.from, got, c.to, c.want)
		}
	}
}

// Executions are kept for the reference clock and told for another; loads know no clock.
func TestTableKeepsClocks(t *testing.T) {
	var table Table
	load, exec := Key{Model: 3}, Key{Model: 3, Size: 4}
	table.Seed(load, 8*ms)
	table.Seed(exec, 6*ms)
	is := func(k Key, at Clock, want mono.Dur) {
		t.Helper()
		if got, ok := table.Estimate(k, at); got != want || !ok {
			t.Errorf("%+v at %d MHz: %v, %v, want %v", k, at, got, ok, want)
		}
	}
	is(exec, 0, 6*ms)
	is(exec, 690, 12*ms)
	is(load, 690, 8*ms)
	for range Size {
		table.Add(exec, 690, 14*ms)
		table.Add(load, 690, 9*ms)
	}
	is(exec, 1380, 7*ms)
	is(exec, 690, 14*ms)
	is(load, 690, 9*ms)
	if n := table.Errors(false).Len(); n != Size {
		t.Errorf("%d errors of executions, want %d", n, Size)
	}
	// 14 ms against 12: the first was 2 ms over.
	if over := table.Errors(false).Over(1); over < 2*ms || over > 2*ms+2*ms/8 {
		t.Errorf("largest error %v, want 2 ms", over)
	}
	if under := table.Errors(false).Under(1); under != 0 {
		t.Errorf("%v under", under)
	}
}

// A size without a window is run as the next larger one that has one.
func TestTableBetweenSizes(t *testing.T) {
	var table Table
	for _, b := range []int{8, 1, 4} {
		table.Seed(Key{Model: 1, Size: b}, mono.Dur(b)*ms)
	}
	for i, want := range []mono.Dur{1, 4, 4, 4, 8, 8, 8, 8} {
		if got, ok := table.Estimate(Key{Model: 1, Size: i + 1}, 0); !ok || got != want*ms {
			t.Errorf("size %d: %v, %v, want %d ms", i+1, got, ok, want)
		}
	}
	for _, k := range []Key{{Model: 1, Size: 9}, {Model: 1}, {Model: 0, Size: 1}, {Model: 7, Size: 1}} {
		if got, ok := table.Estimate(k, 0); ok {
			t.Errorf("%+v: %v, want none", k, got)
		}
	}
	table.Forget(1)
	table.Forget(99)
	if _, ok := table.Estimate(Key{Model: 1, Size: 1}, 0); ok {
		t.Error("it is not forgotten")
	}
}

// Off by over 5 %, either way, and only by measurements.
func TestOff(t *testing.T) {
	k := Key{Model: 0, Size: 2}
	for _, c := range []struct {
		took mono.Dur
		want bool
	}{{10 * ms, false}, {10500 * us, false}, {10501 * us, true}, {9500 * us, false}, {9499 * us, true}} {
		var table Table
		table.Seed(k, 10*ms)
		for i := range Size {
			if table.Off(k, 10*ms) {
				t.Errorf("%v: off after %d measurements", c.took, i)
			}
			table.Add(k, 0, c.took)
		}
		if got := table.Off(k, 10*ms); got != c.want {
			t.Errorf("%v where 10 ms were planned: off %v, want %v", c.took, got, c.want)
		}
	}
	var none Table
	if none.Off(k, ms) {
		t.Error("an empty table is off")
	}
}

// Quantiles against sorting: no less, and by an eighth or a microsecond more at most.
func TestErrorsAgainstSorting(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 50 {
		var e Errors
		var all []mono.Dur
		for range 1 + r.IntN(remembered) {
			d := mono.Dur(r.ExpFloat64() * float64(mono.Dur(1)<<r.IntN(31)))
			if r.IntN(3) == 0 {
				d = -d
			}
			all = append(all, d)
			e.Add(d)
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.9, 0.99, 1} {
			i := max(0, int(math.Ceil(q*float64(len(all))))-1)
			for side, pair := range map[string][2]mono.Dur{"over": {e.Over(q), all[i]}, "under": {e.Under(q), -all[len(all)-1-i]}} {
				got, want := pair[0], max(0, pair[1])
				if got < want || got > want+max(us, want/8) {
					t.Fatalf("seed %d round %d, %d errors: %s(%v) = %v, want %v", seed, round, len(all), side, q, got, want)
				}
			}
		}
	}
}

// What was halves at every 4,096th error.
func TestErrorsForget(t *testing.T) {
	var e Errors
	if e.Over(0.99) != 0 || e.Len() != 0 {
		t.Error("not empty")
	}
	for range remembered {
		e.Add(50 * ms)
	}
	before := e.Over(0.99)
	// A percent of what counts is left of them after about seven halvings.
	n := 0
	for ; e.Over(0.99) >= before; n++ {
		if n > 20*remembered {
			t.Fatal("it does not forget")
		}
		e.Add(100 * us)
	}
	if n < remembered || n > 8*remembered {
		t.Errorf("forgotten after %d errors", n)
	}
	if e.Len() > remembered {
		t.Errorf("%d errors count", e.Len())
	}
	if e.Add(math.MaxInt64); e.Over(1) <= 0 { // beyond the last bucket
		t.Errorf("over %v", e.Over(1))
	}
}

func TestEstimatesAllocateNothing(t *testing.T) {
	var table Table
	k := Key{Model: 9, Size: 4}
	table.Seed(k, ms)
	sum := mono.Dur(0)
	if n := testing.AllocsPerRun(1000, func() {
		table.Add(k, 1530, ms)
		d, _ := table.Estimate(Key{Model: 9, Size: 3}, 1400)
		sum += d + table.Errors(false).Over(0.99)
	}); n != 0 || sum == 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAddAndEstimate(b *testing.B) {
	var table Table
	for m := range 4000 {
		for _, size := range []int{0, 1, 2, 4, 8, 16} {
			table.Seed(Key{Model: 0, Size: size}, mono.Dur(m+1)*us)
		}
	}
	for i := range b.N {
		k := Key{Model: 0, Size: 1 << (i % 5)}
		table.Add(k, 1400, mono.Dur(i%1000)*us)
		table.Estimate(k, 1400)
	}
}
