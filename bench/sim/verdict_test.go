package sim

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/bench/policy/shepherd"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
)

// smallMix is three models, the first two alike, on three GPUs.
func smallMix(t *testing.T, process workload.Process, rate float64, seed uint64) *Config {
	t.Helper()
	cfg := &Config{GPUs: 3, NewPolicy: symphony, Seed: seed, Warmup: mono.Second / 2, Duration: mono.Second}
	for i, slo := range []mono.Dur{25, 25, 40} {
		cfg.Models = append(cfg.Models, Model{Profile: linear(t, 1+float64(i/2), 5), SLO: slo * mono.Millisecond,
			Stream: workload.Stream{Process: process, Shape: 0.2, Rate: rate / 3}})
	}
	return cfg
}

// verdictCase is a change to smallMix, and what must be seen at some rate: so
// many late requests, and GPU time for batches that were lost.
type verdictCase struct {
	name    string
	process workload.Process
	change  func(*Config)
	late    int64
	lost    bool
	source  bool // Streams do not tell the rate: no run is given up
}

func verdictCases() []verdictCase {
	// Of requests, orders and answers some 1 % take longer than the bound.
	slow := func(c *Config) {
		ms := mono.Millisecond
		c.Network = Network{Ctrl: Quantiles(ms/10, ms/5, ms, 8*ms, 10*ms), Bound: batching.Delay{Ctrl: ms}}
	}
	failing := func(c *Config) {
		c.Detection = 3 * mono.Millisecond
		for i := range 4 {
			at := mono.Time(550*mono.Millisecond + mono.Dur(i)*200*mono.Millisecond)
			c.Events = append(c.Events, GPUEvent{At: at, GPU: 2, Kind: Fail}, GPUEvent{At: at.Add(10 * mono.Millisecond), GPU: 2, Kind: Join})
		}
	}
	preempting := func(c *Config) {
		c.NewPolicy = func(p policy.Config) policy.Scheduler {
			return shepherd.New(p, shepherd.Options{Preempt: shepherd.PreemptDefault})
		}
	}
	streams := func(scale float64) func(*Config) {
		return func(c *Config) {
			for i := range c.Models {
				c.Models[i].Stream.Rate *= scale
			}
		}
	}
	return []verdictCase{
		{name: "Poisson", process: workload.Poisson},
		{name: "bursts", process: workload.Gamma},
		{name: "jitter", process: workload.Poisson, change: func(c *Config) { c.Jitter.Share = 0.03 }, late: 1000},
		{name: "network beyond its bound", process: workload.Poisson, change: slow, late: 1000},
		{name: "a GPU that fails and joins", process: workload.Poisson, change: failing, lost: true},
		{name: "preemption", process: workload.Poisson, change: preempting, lost: true},
		{name: "a source, and streams without a rate", process: workload.Poisson, change: streams(0), source: true},
		{name: "a source, and streams of a tenth", process: workload.Poisson, change: streams(0.1), source: true},
		{name: "a source, and streams of its rate", process: workload.Gamma, change: streams(1), source: true},
	}
}

// config of the case; it can be run once, for a source ends.
func (c *verdictCase) config(t *testing.T, rate float64, seed uint64) *Config {
	t.Helper()
	cfg := smallMix(t, c.process, rate, seed)
	if c.source {
		mix, err := cfg.arrivals()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Source = mix
	}
	if c.change != nil {
		c.change(cfg)
	}
	return cfg
}

// TestWithin: a run that is given up would have failed, at any rate, and one
// that passes has the result of the whole run.
func TestWithin(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	for _, c := range verdictCases() {
		t.Run(c.name, func(t *testing.T) {
			seen := verdicts{}
			for _, groups := range [][]int{nil, {0, 0, 2}} {
				for rate := 600.0; rate < 3000; rate *= 1.05 {
					for seed := range uint64(3) {
						seen.add(t, &c, groups, rate, seed)
					}
				}
			}
			t.Logf("%+v", seen)
			switch {
			case seen.passed < 20 || seen.failed < 20:
				t.Errorf("%+v: too few to tell", seen)
			case c.source != (seen.given == 0) || !c.source && seen.given < 20:
				t.Errorf("%d runs of %d that failed were given up", seen.given, seen.failed)
			case seen.late < c.late || c.late > 0 && seen.near == 0 || c.lost && !seen.lost:
				t.Errorf("%+v: the runs are not what they should be", seen)
			}
		})
	}
}

// verdicts of one case. near is the runs that pass, and would not if their late
// requests counted twice.
type verdicts struct {
	passed, failed, given, near int
	late                        int64
	lost                        bool
}

// add tries one rate.
func (v *verdicts) add(t *testing.T, c *verdictCase, groups []int, rate float64, seed uint64) {
	t.Helper()
	whole, err := Run(c.config(t, rate, seed), nil)
	if err != nil {
		t.Fatal(err)
	}
	part, pass, err := Within(c.config(t, rate, seed), groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := WorstBadRate(whole, groups) <= BadRateMax; pass != want {
		t.Fatalf("at %.0f r/s, seed %d, groups %v: pass is %v; the whole run has a worst bad rate of %g", rate, seed, groups, pass, WorstBadRate(whole, groups))
	}
	if pass && part.All != whole.All {
		t.Fatalf("a pass at %.0f r/s has %+v, the whole run %+v", rate, part.All, whole.All)
	}
	v.late += whole.All.Late
	v.lost = v.lost || whole.Lost > 0
	if !pass {
		v.failed++
		if part.Steps < whole.Steps {
			v.given++
		}
		return
	}
	v.passed++
	twice := *whole
	twice.Models = append([]Counts{}, whole.Models...)
	for i := range twice.Models {
		twice.Models[i].Served -= twice.Models[i].Late
	}
	if WorstBadRate(&twice, groups) > BadRateMax {
		v.near++
	}
}

// TestTogether: runs are judged as if they were one, and what cannot pass any more is not simulated.
func TestTogether(t *testing.T) {
	if invariants.Enabled {
		t.Skip("long, and nothing in it runs side by side: without the race detector")
	}
	passed, failed, given, against := 0, 0, 0, 0
	for rate := 600.0; rate < 2400; rate *= 1.03 {
		cfgs := func() (out []*Config) {
			for seed := range uint64(3) {
				out = append(out, smallMix(t, workload.Poisson, rate, seed))
			}
			return out
		}
		whole, alone := &Result{}, 0
		for _, c := range cfgs() {
			r, err := Run(c, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole.add(r)
			if WorstBadRate(r, nil) > BadRateMax {
				alone++
			}
		}
		got, pass, err := Together(cfgs(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := WorstBadRate(whole, nil) <= BadRateMax; pass != want {
			t.Fatalf("at %.0f r/s: pass is %v; all runs have a worst bad rate of %g", rate, pass, WorstBadRate(whole, nil))
		}
		if pass && got.All != whole.All {
			t.Errorf("a pass at %.0f r/s has %+v, the runs %+v", rate, got.All, whole.All)
		}
		switch {
		case pass:
			passed++
		case got.All.Arrived < whole.All.Arrived:
			given++
			fallthrough
		default:
			failed++
		}
		if pass && alone > 0 || !pass && alone < 3 {
			against++ // the verdicts of single runs differ
		}
	}
	if passed < 5 || failed < 5 || given < 5 || against < 2 {
		t.Errorf("%d passed, %d failed, %d of them given up, in %d runs differ: too few to tell", passed, failed, given, against)
	}
	if _, _, err := Together(nil, nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("no runs: %v", err)
	}
	other := smallMix(t, workload.Gamma, 900, 1)
	other.Models = other.Models[:2]
	if _, _, err := Together([]*Config{smallMix(t, workload.Gamma, 900, 0), other}, nil, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("other models: %v", err)
	}
}
