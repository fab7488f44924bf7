package residency

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A lost GPU takes its models, its loads and its uses with it; what is told of them later is ignored, also when
// the GPU is back and has the same model.
func TestLostGPU(t *testing.T) {
	s := tell(t, Config{}, 7, 7).gpu(0, 20, 0).told("place m0 g0 #1 from 0ms").began(0, 0, 0, 1)
	s.arrive(1, 1, 97*ms).step("load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms")
	s.r.RemoveGPU(s.now, 0, &s.out)
	s.step("displace m0 g0 #1", "displace m1 g0 #2").due(mono.Never) // no GPU: nothing to plan
	if free, all := s.r.Pages(0); free != 0 || all != 0 {
		t.Errorf("%d pages free of %d", free, all)
	}
	s.at(ms).gpu(0, 14, 0)
	s.step("load m1 g0 #4 1ms-9ms", "place m0 g0 #3 from 1ms", "place m1 g0 #4 from 9ms")
	if s.r.Loaded(s.now, Report{ID: 1 << gpuBits, Start: 0, End: s.now, OK: true}, &s.out) {
		t.Error("a load of the GPU's former life was concluded")
	}
	s.r.Ended(s.now, 0, 0, 1)
	s.began(0, 0, 0, 3).r.Ended(s.now, 0, 0, 1)
	if h, _ := s.r.Held(0, 0); h.Uses != 1 {
		t.Errorf("an end of the former life was taken: %+v", h)
	}
	s.at(9*ms).loaded("m1 g0", ms, true).step("place m1 g0 #4 from 9ms")
	if c := s.r.Counts(); c.Lost != 2 {
		t.Errorf("%+v", c)
	}
}

// What a backend holds that comes back is placed as far as it fits and is known.
func TestHeldByReturningBackend(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7).gpu(3, 15, 2, 9, 2, 0, 1)
	s.step("unload m9 g3 #1", "unload m1 g3 #1", "place m2 g3 #1 from 0ms", "place m0 g3 #1 from 0ms")
	if free, all := s.r.Pages(3); free != 1 || all != 15 {
		t.Errorf("%d pages free of %d", free, all)
	}
	// The first one told is the least recently used.
	s.arrive(1, 1, 97*ms).step("displace m2 g3 #1", "unload m2 g3 #1", "load m1 g3 #2 0ms-8ms", "place m1 g3 #2 from 8ms")
	// Told again without having gone: it begins a new life.
	s.at(ms).gpu(3, 15).step("displace m0 g3 #1", "displace m1 g3 #2", "load m1 g3 #4 1ms-9ms", "place m1 g3 #4 from 1ms"[:0]+"place m1 g3 #4 from 9ms")
}

// A model that is removed leaves as soon as its last batch has; one that was loading, once it is there. A new
// one may have its id meanwhile, and is loaded there once the other is gone.
func TestRemovedModel(t *testing.T) {
	s := tell(t, Config{}, 7, 7, 7).gpu(0, 21, 0, 2).told("place m0 g0 #1 from 0ms", "place m2 g0 #1 from 0ms").began(0, 0, 0, 1)
	gen := s.r.Hold(0, 0)
	s.arrive(1, 1, 97*ms).arrive(0, 1, 97*ms).step("load m1 g0 #2 0ms-8ms", "place m1 g0 #2 from 8ms")
	for id := range wire.ModelID(3) {
		s.r.RemoveModel(s.now, id, &s.out)
	}
	s.r.RemoveModel(s.now, 9, &s.out)
	s.step("displace m0 g0 #1", "displace m1 g0 #2", "displace m2 g0 #1", "unload m2 g0 #1").due(mono.Never)
	s.r.AddModel(0, Model{Pages: 7, LoadTime: 8 * ms})
	s.at(ms).arrive(0, 1, 97*ms).arrive(1, 1, 97*ms) // one that is not known, too
	s.r.Ended(s.now, 0, 0, 1)
	s.step()
	s.at(8*ms).loaded("m1 g0", 0, true).step("unload m1 g0 #2")
	s.r.Release(s.now, 0, 0, gen)
	s.dueNow().step("unload m0 g0 #1", "load m0 g0 #3 8ms-16ms", "place m0 g0 #3 from 16ms")
	if free, _ := s.r.Pages(0); free != 14 {
		t.Errorf("%d pages free", free)
	}
	// Its batch ends after its GPU was lost: nothing is left to unload.
	s.began(0, 0, 0, 3)
	s.r.RemoveModel(s.now, 0, &s.out)
	s.told("displace m0 g0 #3")
	s.r.RemoveGPU(s.now, 0, &s.out)
	s.r.Ended(s.now, 0, 0, 3)
	s.step()
}

// A model removed whose last use ends in the turn in which its GPU is lost.
func TestRemovedAndLost(t *testing.T) {
	s := tell(t, Config{}, 7).gpu(0, 21, 0).told("place m0 g0 #1 from 0ms").began(0, 0, 0, 1)
	s.r.RemoveModel(s.now, 0, &s.out)
	s.r.Ended(s.now, 0, 0, 1)
	s.r.RemoveGPU(s.now, 0, &s.out)
	s.told("displace m0 g0 #1").due(mono.Never).step()
}

// Reports out of order, and of loads that nobody ordered.
func TestReportsOutOfOrder(t *testing.T) {
	s := tell(t, Config{}, 1, 1).gpu(0, 9).arrive(0, 1, 97*ms).step("load m0 g0 #2 0ms-8ms", "place m0 g0 #2 from 8ms")
	s.at(4*ms).arrive(1, 1, 97*ms).step("load m1 g0 #3 8ms-16ms", "place m1 g0 #3 from 16ms")
	for _, id := range []LoadID{0, 99<<gpuBits | 0, 1<<gpuBits | 7} {
		if s.r.Loaded(s.now, Report{ID: id, End: s.now, OK: true}, &s.out) {
			t.Errorf("load %d is not known to anybody", id)
		}
	}
	s.at(16*ms).loaded("m1 g0", 8*ms, true).told("place m1 g0 #3 from 16ms")
	s.loaded("m0 g0", 0, true).told("place m0 g0 #2 from 16ms")
}

// One sequence of calls has one sequence of effects.
func TestTwiceTheSame(t *testing.T) {
	run := func(seed int) []string {
		var log []string
		rapidly(seed, func(w *world) { w.keep = true }, func(w *world) {
			if log = w.log; w.r.Counts().Loads < 10 || w.r.Counts().Unloads == 0 {
				t.Errorf("seed %d: too little happens to compare: %+v", seed, w.r.Counts())
			}
		})
		return log
	}
	for seed := range 3 {
		a, b := run(seed+1), run(seed+1)
		if len(a) < 500 || !slices.Equal(a, b) {
			t.Errorf("seed %d: %d and %d effects, equal: %v", seed+1, len(a), len(b), slices.Equal(a, b))
		}
	}
}

// rapidly drives a world with draws of a seed.
func rapidly(seed int, before, after func(*world)) {
	rapid.Custom(func(t *rapid.T) int {
		w := newWorld(Config{})
		before(w)
		d := &driver{world: w, t: t, asked: map[wire.ModelID]mono.Time{}, gpus: 3, names: 8}
		for range d.names {
			d.plan()
		}
		for id := range d.gpus {
			d.addGPU(wire.GPUID(id), 16, nil, &d.out)
		}
		for range stepsOfASequence {
			d.act()
		}
		if w.err != nil {
			panic(fmt.Sprintf("seed %d: %v", seed, w.err))
		}
		after(w)
		return 0
	}).Example(seed)
}
