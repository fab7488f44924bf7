package sim_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// awake is a policy that notes when it was called, and what it was told late.
type awake struct {
	policy.Scheduler
	calls []mono.Time
	late  mono.Dur // the most that a timer was
	told  mono.Dur // the most that it was told to reckon with
}

func (a *awake) at(now mono.Time) {
	if n := len(a.calls); n == 0 || a.calls[n-1] != now {
		a.calls = append(a.calls, now)
	}
}

func (a *awake) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	a.at(now)
	a.Scheduler.Submit(now, id, r, out)
}

func (a *awake) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	a.at(now)
	a.Scheduler.Done(now, batch, end, out)
}

func (a *awake) Step(now mono.Time, out *policy.Out) {
	a.at(now)
	a.late = max(a.late, now.Sub(a.NextWake()))
	a.Scheduler.Step(now, out)
}

func (a *awake) SetDelay(now mono.Time, d batching.Delay, out *policy.Out) {
	a.at(now)
	a.told = max(a.told, d.Late)
	a.Scheduler.(policy.Measured).SetDelay(now, d, out)
}

func (a *awake) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	a.at(now)
	a.Scheduler.AddGPU(now, id, out)
}

func (a *awake) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	a.at(now)
	a.Scheduler.RemoveGPU(now, id, out)
}

// TestSchedulerStandsStill: nothing reaches it in a pause, its timers fire late,
// and there is a gap in its calls at each pause and nowhere else.
func TestSchedulerStandsStill(t *testing.T) {
	const length, every = 5 * ms, 100 * ms
	cfg := config(t, "symphony/defer", 4, 2000, 0)
	cfg.Margins = true
	cfg.Pauses = []sim.Pause{{Part: sim.SchedulerPart, Length: length, Every: every}}
	cfg.Events = []sim.GPUEvent{}
	for i := range 40 { // some of them lie in a pause
		at := mono.Time(mono.Dur(i) * 43 * ms)
		cfg.Events = append(cfg.Events, sim.GPUEvent{At: at, GPU: 3, Kind: sim.Leave}, sim.GPUEvent{At: at.Add(ms), GPU: 3, Kind: sim.Join})
	}
	make := cfg.NewPolicy
	var seen *awake
	cfg.NewPolicy = func(c policy.Config) policy.Scheduler {
		seen = &awake{Scheduler: make(c)}
		return seen
	}
	r, kept, dropped, _ := watched(t, cfg)
	counts(t, r)
	for id, n := range kept {
		if n+dropped[id] != 1 {
			t.Fatalf("request %d: %d batches that count, %d drops", id, n, dropped[id])
		}
	}
	gaps, first := 0, mono.Time(0)
	for i := 1; i < len(seen.calls); i++ {
		if seen.calls[i].Sub(seen.calls[i-1]) < length {
			continue
		}
		gaps++
		if first == 0 {
			first = seen.calls[i]
		}
		if off := seen.calls[i].Sub(first) % every; off != 0 {
			t.Errorf("silent from %v to %v, which is not the end of a pause: they end %v after multiples of %v", seen.calls[i-1], seen.calls[i], first, every)
		}
	}
	if seen.told < length*8/10 || seen.told > length {
		t.Errorf("it reckons with pauses of %v, they are of %v", seen.told, length)
	}
	if gaps < 18 || seen.late < length*8/10 || seen.late > length {
		t.Errorf("%d pauses in %v, and a timer late by %v at most", gaps, cfg.Duration, seen.late)
	}
}

// TestDeviceStandsStill: what runs takes longer by whole pauses, and nothing
// starts in one; each GPU has an own time for them.
func TestDeviceStandsStill(t *testing.T) {
	const length, every = 10 * ms, 100 * ms
	cfg := config(t, "eager", 3, 300, 0)
	cfg.Pauses = []sim.Pause{{Part: sim.BackendPart, Length: length, Every: every}}
	longer := map[wire.GPUID]int{}
	begins := map[wire.GPUID]mono.Dur{} // the latest instant that each pause can begin
	cfg.Observer.Executed = func(e *sim.Execution) {
		extra := e.End.Sub(e.Start) - cfg.Models[e.Model].Profile.Latency(len(e.Requests))
		switch extra {
		case 0:
		case length:
			longer[e.GPU]++
			begins[e.GPU] = mono.Dur(e.Start) % every
		default:
			t.Fatalf("a batch took %v longer than planned, pauses are of %v", extra, length)
		}
	}
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	counts(t, r)
	if len(longer) != 3 || begins[0] == begins[1] || r.All.Served == 0 {
		t.Errorf("batches that took longer, by GPU: %v, from %v on", longer, begins)
	}
}

// TestPausesOfAllPolicies: each request counts once while both parts stand
// still, GPUs fail, and messages take time; one seed has one result, another has
// another.
func TestPausesOfAllPolicies(t *testing.T) {
	for _, name := range scenario.Policies() {
		t.Run(name, func(t *testing.T) {
			run := func(seed uint64) *sim.Result {
				cfg := config(t, name, 4, 2000, mono.Millisecond/2)
				cfg.Seed, cfg.Margins, cfg.Detection = seed, true, 3*ms
				cfg.Pauses = []sim.Pause{{Part: sim.SchedulerPart, Length: 5 * ms, Every: 60 * ms}, {Part: sim.SchedulerPart, Length: 2 * ms, Every: 90 * ms, Random: true},
					{Part: sim.BackendPart, Length: 7 * ms, Every: 150 * ms, Random: true}}
				for i := range 30 {
					at := mono.Time(200*ms + mono.Dur(i)*57*ms)
					kind := sim.Fail
					if i%2 == 0 {
						kind = sim.Leave
					}
					cfg.Events = append(cfg.Events, sim.GPUEvent{At: at, GPU: 1, Kind: kind}, sim.GPUEvent{At: at.Add(4 * ms), GPU: 1, Kind: sim.Join})
				}
				r, kept, dropped, _ := watched(t, cfg)
				counts(t, r)
				for id, n := range kept {
					if n+dropped[id] != 1 {
						t.Fatalf("request %d: %d batches that count, %d drops", id, n, dropped[id])
					}
				}
				return r
			}
			a, b, c := run(1), run(1), run(2)
			if !reflect.DeepEqual(a, b) {
				t.Errorf("one seed, two results: %+v and %+v", a.All, b.All)
			}
			if a.All == c.All || a.All.Served < a.All.Arrived/3 {
				t.Errorf("seeds 1 and 2: %+v and %+v", a.All, c.All)
			}
		})
	}
}

// TestMarginIsLearnt: devices that stand still often make batches end late; what
// is learnt of it keeps most answers in time, for any policy.
func TestMarginIsLearnt(t *testing.T) {
	for _, name := range []string{"symphony/defer", "eager/target", "clockwork"} {
		late := map[bool]int64{}
		for _, margins := range []bool{false, true} {
			cfg := config(t, name, 4, 1500, 0)
			cfg.Duration, cfg.Warmup, cfg.Margins = 10*mono.Second, 5*mono.Second, margins
			cfg.Pauses = []sim.Pause{{Part: sim.BackendPart, Length: 2 * ms, Every: 50 * ms, Random: true}}
			r, err := sim.Run(cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			late[margins] = r.All.Late
		}
		t.Logf("%s: %d late without, %d with margins", name, late[false], late[true])
		if late[false] < 100 && name == "symphony/defer" || late[true] > late[false]/2+10 {
			t.Errorf("%s: %d late without, %d with margins", name, late[false], late[true])
		}
	}
}

// TestHopeless: a pause longer than a budget loses what comes at its begin, by
// any policy; the count says how many, and no more are lost when there is room.
func TestHopeless(t *testing.T) {
	cfg := config(t, "eager", 4, 200, 0)
	cfg.Duration = 20 * mono.Second
	cfg.Pauses = []sim.Pause{{Part: sim.SchedulerPart, Length: 40 * ms, Every: 400 * ms}}
	r, err := sim.Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Of SLO 25 ms l(1) = 6.1 leaves 18.9: what comes in the first 21.1 ms.
	if share := float64(r.Hopeless) / float64(r.All.Arrived); share < 0.04 || share > 0.07 || r.All.Bad() < r.Hopeless || r.All.Bad() > 2*r.Hopeless {
		t.Errorf("%d hopeless, %d bad of %d", r.Hopeless, r.All.Bad(), r.All.Arrived)
	}
	cfg.Pauses = nil
	if r, err = sim.Run(cfg, nil); err != nil || r.Hopeless != 0 {
		t.Errorf("%d hopeless without pauses, %v", r.Hopeless, err)
	}
}

func TestPausesRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		pauses []sim.Pause
	}{
		{"pause of 0ms every 1000ms", []sim.Pause{{Every: mono.Second}}},
		{"pause of 2ms every 1ms", []sim.Pause{{Length: 2 * ms, Every: ms}}},
		{"pauses take 0.6 of the time", []sim.Pause{{Length: 3 * ms, Every: 10 * ms}, {Length: 3 * ms, Every: 10 * ms, Random: true}}},
		{"pause of 1ms every 10ms", []sim.Pause{{Part: 7, Length: ms, Every: 10 * ms}}},
	} {
		cfg := config(t, "eager", 1, 10, 0)
		cfg.Pauses = c.pauses
		if _, err := sim.Run(cfg, nil); !errors.Is(err, sim.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.pauses, err, c.want)
		}
	}
}

// TestLatenessIsLearnt: the A100 zoo at half of its peak, and a scheduler that
// stands still for 5 ms every 200 ms. Nothing is bad once it has learnt of it, and
// much is without.
func TestLatenessIsLearnt(t *testing.T) {
	bad := map[bool]int64{}
	for _, margins := range []bool{false, true} {
		cfg := config(t, "symphony/defer", 64, 0, 0)
		cfg.Warmup, cfg.Duration, cfg.Margins = 3*mono.Second, 10*mono.Second, margins
		cfg.Models = nil
		for _, m := range zoo.A100() {
			p, err := profile.Linear(m.Alpha, m.Beta, 256)
			if err != nil {
				t.Fatal(err)
			}
			cfg.Models = append(cfg.Models, sim.Model{Name: m.Name, Profile: p, SLO: m.SLO, Stream: workload.Stream{Process: workload.Poisson, Rate: 9000 / 37.0}})
		}
		cfg.Pauses = []sim.Pause{{Part: sim.SchedulerPart, Length: 5 * ms, Every: 200 * ms}}
		r, err := sim.Run(cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		bad[margins] = r.All.Bad()
	}
	if bad[false] < 100 || bad[true] != 0 {
		t.Errorf("%d bad without, %d with what is learnt", bad[false], bad[true])
	}
}
