package rank

import (
	"errors"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func TestParseHeadroom(t *testing.T) {
	for text, want := range map[string]Headroom{"": {}, "all": {}, "0": {Limited: true}, "0.25": {Limited: true, Share: 0.25}, "100": {Limited: true, Share: 100}} {
		h, err := ParseHeadroom(text)
		if err != nil || h != want || text != "" && h.String() != text {
			t.Errorf("%q is read as %+v, %v, and written %q", text, h, err, h)
		}
		if h.None() != (text == "0") {
			t.Errorf("%q: None is %v", text, h.None())
		}
	}
	for _, text := range []string{"All", "x", "-0.1", "101", "NaN", "Inf", "0.25 "} {
		if h, err := ParseHeadroom(text); !errors.Is(err, ErrHeadroom) {
			t.Errorf("%q is read as %+v, %v; want ErrHeadroom", text, h, err)
		}
	}
}

// needing is a rank of n free GPUs whose models need so many of them, and kept with so much headroom.
func needing(n int, gpus, share float64) *Rank {
	r := New(Config{Headroom: Headroom{Limited: true, Share: share}})
	for id := range n {
		r.AddGPU(wire.GPUID(id), 0)
	}
	r.SetCandidate(9, batching.Candidate{})
	r.gpus.SetNeed(&r.models[9].usage, gpus, 0)
	return r
}

// early is a candidate that deferral alone would start at an instant, in microseconds.
func early(exec, deferred, latest mono.Time) batching.Candidate {
	const us = mono.Time(mono.Microsecond)
	return batching.Candidate{Batch: batching.Batch{Size: 1, Hold: uint32(deferred - exec)}, Exec: exec * us, Latest: latest * us}
}

func us(t mono.Time) mono.Time { return t * mono.Time(mono.Microsecond) }

func TestKept(t *testing.T) {
	for _, c := range []struct {
		need, share float64
		want        int
	}{{0, 0.25, 1}, {0, 0, 0}, {1.2, 0.25, 2}, {4, 0.25, 5}, {4, 0, 0}, {4, 1, 8}, {100, 0.25, 125}} {
		r := needing(8, c.need, c.share)
		expect(t, r, 1)
		if r.Kept() != c.want {
			t.Errorf("need %v, headroom %v: %d GPUs are kept, want %d", c.need, c.share, r.Kept(), c.want)
		}
	}
}

// Early candidates go to GPUs that are kept anyway, the smallest id first, and to others when
// deferral alone would start them.
func TestEarlyTakesKeptGPUs(t *testing.T) {
	r := needing(8, 1.5, 0.25) // keeps 2
	for id := range wire.ModelID(4) {
		r.SetCandidate(id, early(10, 50, 60))
	}
	expect(t, r, us(9))
	expect(t, r, us(10), [2]int{0, 0}, [2]int{1, 1})
	if r.NextWake() != us(50) {
		t.Fatalf("next wake %v, want 50 us: two candidates wait for their deferred start", r.NextWake())
	}
	expect(t, r, us(49))
	expect(t, r, us(50), [2]int{2, 2}, [2]int{3, 3})
	if r.NextWake() != mono.Never {
		t.Fatalf("next wake %v with nothing left", r.NextWake())
	}
}

// A GPU that becomes free takes an early candidate if it is one of those that are kept.
func TestFreedGPUTakesEarly(t *testing.T) {
	r := needing(4, 0.7, 0.25) // keeps 1
	r.AddGPU(0, us(30))
	r.AddGPU(1, us(20))
	r.SetCandidate(0, early(10, 100, 120))
	r.SetCandidate(1, early(10, 100, 110))
	expect(t, r, us(10))
	expect(t, r, us(20))
	if r.NextWake() != us(30) {
		t.Fatalf("next wake %v, want 30 us: GPU 0", r.NextWake())
	}
	expect(t, r, us(30), [2]int{1, 0}) // the one due first
	r.Answer(Answer{Grant: grantOf(r, 1, 0), Batch: 1, Exec: us(30), Until: us(40)})
	r.Done(0, r.gpus.Life(0), 1, us(35))
	if r.NextWake() != us(35) {
		t.Fatalf("next wake %v, want 35 us: GPU 0 was reported", r.NextWake())
	}
	expect(t, r, us(36), [2]int{0, 0})
}

// An early candidate that is replaced or taken away, and GPUs that go, leave nothing behind.
func TestEarlyIsTakenBack(t *testing.T) {
	r := needing(2, 0.7, 0.25)
	r.AddGPU(0, us(30))
	r.SetCandidate(0, early(10, 100, 120))
	expect(t, r, us(10))
	r.SetCandidate(0, batching.Candidate{})
	if r.NextWake() != mono.Never {
		t.Fatalf("next wake %v without a candidate", r.NextWake())
	}
	expect(t, r, us(200))

	r = needing(2, 0.7, 0.25)
	r.AddGPU(0, us(30))
	r.SetCandidate(0, early(10, 100, 120))
	expect(t, r, us(10))
	r.SetCandidate(0, early(20, 80, 120)) // a larger batch
	r.RemoveGPU(0)
	expect(t, r, us(30))
	if r.NextWake() != us(80) {
		t.Fatalf("next wake %v, want the deferred start, 80 us", r.NextWake())
	}
	expect(t, r, us(80), [2]int{0, 1})
}

// More need keeps more GPUs: they take what waits early at the next Step.
func TestNeedKeepsMore(t *testing.T) {
	r := needing(4, 0.7, 0.25)
	r.SetCandidate(0, early(10, 100, 120))
	r.SetCandidate(1, early(10, 100, 120))
	expect(t, r, us(10), [2]int{0, 0})
	r.gpus.SetNeed(&r.models[9].usage, 1.5, 0)
	expect(t, r, us(20), [2]int{1, 1})
}

// The need is the sum of what the models said last; who ran nothing for long does not count.
func TestNeedSums(t *testing.T) {
	r, out := New(Config{}), Out{}
	r.AddGPU(0, 0)
	batch := wire.BatchID(0)
	run := func(id wire.ModelID, at mono.Time, need float64) {
		batch++
		r.SetCandidate(id, batching.Candidate{Batch: batching.Batch{Size: 1}, Exec: at, Latest: at})
		out.Grants = out.Grants[:0]
		r.Step(at, &out)
		r.Answer(Answer{Grant: out.Grants[0], Batch: batch, Exec: at, Until: at.Add(1), Need: need})
		r.Done(0, out.Grants[0].Life, batch, at.Add(1))
	}
	second := func(n int) mono.Time { return mono.Time(n) * mono.Time(mono.Second) }
	check := func(at mono.Time, want float64) {
		t.Helper()
		if got := r.Need(at); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v: need %v, want %v", at, got, want)
		}
	}
	check(second(1), 0)
	run(0, second(1), 0.1)
	run(3, second(1)+5, 2)
	check(second(1)+10, 2.1)
	run(0, second(2), 0.3)
	check(second(2)+5, 2.3)
	r.RemoveGPU(0) // what is there does not change what is needed
	check(second(11), 2.3)
	check(second(12), 0.3) // model 3 ran last ten spans ago
	r.AddGPU(0, 0)
	run(3, second(12)+5, 1)
	check(second(12)+10, 1.3)
	check(second(100), 0)
	run(3, second(100)+5, 1)
	check(second(100)+10, 1)
}
