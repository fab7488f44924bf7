package cold

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Without loads the same instants come, and models that fit only; the often asked ones keep their requests.
func TestFolded(t *testing.T) {
	mix := func() *workload.Mix {
		var streams []workload.Stream
		for range 12 {
			streams = append(streams, workload.Stream{Process: workload.Poisson, Rate: 10})
		}
		m, err := workload.NewMix(streams, 5)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	with, without := &gaps{from: mix()}, &folded{gaps{from: mix()}, 2, 4}
	asked := [12]int{}
	for range 10000 {
		gap, model := with.Next()
		same, to := without.Next()
		if gap != same || model < 2 && to != model || model >= 2 && (to < 2 || to > 3) {
			t.Fatalf("model %d after %v becomes %d after %v", model, gap, to, same)
		}
		asked[to]++
	}
	if asked[0] == 0 || asked[2] < 3*asked[0] || asked[3] < 3*asked[0] {
		t.Errorf("%v", asked)
	}
}

// Latencies are told by who waited for a load, and of the others only those of the often asked copies.
func TestSide(t *testing.T) {
	c := newSideCounter()
	o := &sideObserver{c, 2}
	see := func(model int, latency mono.Dur, a load.Answer) {
		o.Observe(load.Observation{Model: model, Latency: latency, Answer: a})
	}
	see(0, 10*ms, load.Answer{Execute: 4 * ms})
	see(1, 20*ms, load.Answer{Execute: 5 * ms})
	see(1, 30*ms, load.Answer{Cold: true, Execute: 5 * ms})
	see(2, 40*ms, load.Answer{Execute: 9 * ms})
	see(2, 900*ms, load.Answer{Reason: "late"})
	see(2, 0, load.Answer{Reason: "cold"})
	c.turned(2*mono.Second, 70, Loads{Loads: 3, Busy: 30 * ms})
	c.turned(mono.Second, 60, Loads{Loads: 1, Unloads: 1, Failed: 1, Busy: 10 * ms})
	s := c.end()
	if s.Offered != 6 || s.InTime != 4 || s.Late != 1 || s.Refused["cold"] != 1 || s.Cold != 1 || s.Slowest != 900 || s.Seconds != 3 || s.Resident != 70 ||
		s.Loaded != (Loads{4, 1, 1, 40 * ms}) || s.Loaded.Mean() != 10 {
		t.Errorf("%+v", s)
	}
	if s.Warm.N != 2 || s.Warm.Max != 20 || s.WarmRuns.N != 2 || s.WarmRuns.Max != 5 || s.ColdOnes.N != 1 || s.ColdOnes.Max != 30 {
		t.Errorf("%+v", s)
	}
}

// Reports are counted by what they are of.
func TestLoadsWatcher(t *testing.T) {
	w := &LoadsWatcher{}
	w.Loaded(&wire.Loaded{Op: wire.OpLoad, Start: 5, End: 9})
	before := w.told()
	w.Loaded(&wire.Loaded{Op: wire.OpLoad, Start: 5, End: 25})
	w.Loaded(&wire.Loaded{Op: wire.OpLoad, Reason: wire.ReasonMemory, Start: 5, End: 25})
	w.Loaded(&wire.Loaded{Op: wire.OpUnload, Start: 5, End: 25})
	if l := w.told().less(before); l != (Loads{1, 1, 1, 20}) || before != (Loads{1, 0, 0, 4}) {
		t.Errorf("%+v, before %+v", l, before)
	}
}

// The most that memory was between begin and end is found, though it is less at both.
func TestWatchMemory(t *testing.T) {
	looks, twice := 0, make(chan struct{})
	m := watchMemory(func() int64 {
		if looks++; looks == 4 {
			close(twice)
		}
		if looks == 3 {
			return 9
		}
		return 4
	})
	<-twice
	if most := m.end(); most != 9 {
		t.Errorf("%d", most)
	}
}

// Each claim fails by what it is about, and what was not measured holds nothing.
func TestRealClaims(t *testing.T) {
	good := func() *RealResult {
		side := func(loads int64) Side {
			p := Percentiles{N: 100, P99: 10}
			return Side{Offered: 100, InTime: 100, Warm: p, WarmRuns: p, Loaded: Loads{Loads: loads, Unloads: loads}, Resident: 1140, Refused: map[string]int64{}}
		}
		return &RealResult{Config: RealConfig{SLO: mono.Second, Page: 10, Pages: 10}, Idle: 1030, With: side(5), Without: side(0)}
	}
	if r := good(); true {
		if r.judge(); r.Failed() != "" || len(r.Claims) != 6 {
			t.Fatalf("%q, %+v", r.Failed(), r.Claims)
		}
	}
	spoilt(t, good, map[string]func(*RealResult){
		"lost":           func(r *RealResult) { r.Lost = 1 },
		"lag":            func(r *RealResult) { r.LagMean = 3 },
		"no loads":       func(r *RealResult) { r.With.Loaded.Loads = 0 },
		"no unloads":     func(r *RealResult) { r.With.Loaded.Unloads = 0 },
		"loads in both":  func(r *RealResult) { r.Without.Loaded.Loads = 1 },
		"one not served": func(r *RealResult) { r.With.InTime-- },
		"slower":         func(r *RealResult) { r.With.Warm.P99 = 12.5 },
		"nobody warm":    func(r *RealResult) { r.Without.Warm.N = 0 },
		"memory":         func(r *RealResult) { r.With.Resident = 1300 },
		"unknown memory": func(r *RealResult) { r.Idle = 0 },
		"interrupted":    func(r *RealResult) { r.Interrupted = true },
	})
}
