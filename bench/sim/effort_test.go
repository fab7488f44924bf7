package sim

import (
	"reflect"
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// batchClients are two models with deadlines of 40 ms, 150 requests/s each, and two with 16 batch clients each, on three GPUs of
// which one is lost for a while.
func batchClients(t *testing.T, paged, effort bool) *Config {
	t.Helper()
	p, err := profile.Linear(mono.Millisecond, 4*mono.Millisecond, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{GPUs: 3, Warmup: mono.Second, Duration: 4 * mono.Second, Seed: 5, Detection: 5 * mono.Millisecond,
		Events: []GPUEvent{{mono.Time(2 * mono.Second), 2, Fail}, {mono.Time(3 * mono.Second), 2, Join}}}
	streams := make([]workload.Stream, 4)
	for i := range streams {
		cfg.Models = append(cfg.Models, Model{Name: "m", Profile: p, SLO: 40 * mono.Millisecond, Pages: 1, LoadTime: mono.Millisecond})
		if i < 2 {
			streams[i] = workload.Stream{Process: workload.Poisson, Rate: 150}
		} else {
			cfg.Models[i].Class, cfg.Models[i].SLO = wire.ClassBestEffort, 3600*mono.Second
		}
	}
	mix, err := workload.NewMix(streams[:2], cfg.Seed)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Source = mix; effort {
		if cfg.Source, err = workload.NewClients([]int{0, 0, 16, 16}, mono.Millisecond, 100*mono.Millisecond, mix); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.NewPolicy = func(c policy.Config) policy.Scheduler { return deferred.New(c, deferred.Options{}) }; paged {
		cfg.Paging = Paging{Pages: 8}
		for range cfg.GPUs {
			cfg.Paging.Held = append(cfg.Paging.Held, []wire.ModelID{0, 1}) // those of best effort have to be loaded for it
		}
		cfg.NewPolicy = func(c policy.Config) policy.Scheduler { return deferred.NewPaged(c, deferred.PagedOptions{}) }
	}
	return cfg
}

// Batch clients beside requests with deadlines, on resident and on paged GPUs: what is counted for each class adds up, no request of best
// effort is lost, they use most of what is left, and the others lose next to nothing; the need is that of the others. Twice the same.
func TestBestEffort(t *testing.T) {
	for _, paged := range []bool{false, true} {
		run := func(effort bool) *Result {
			res, err := Run(batchClients(t, paged, effort), nil)
			if err != nil {
				t.Fatal(err)
			}
			res.Scheduler = nil
			return res
		}
		alone, beside := run(false), run(true)
		ls, bc := &beside.ByClass[wire.ClassLatency], &beside.ByClass[wire.ClassBestEffort]
		if ls.Arrived != alone.All.Arrived || ls.Arrived+bc.Arrived != beside.All.Arrived || beside.NeedMean != alone.NeedMean {
			t.Errorf("paged %v: %d and %d arrived, %d alone; need %g, %g alone", paged, ls.Arrived, bc.Arrived, alone.All.Arrived, beside.NeedMean, alone.NeedMean)
		}
		var all mono.Dur
		for _, b := range beside.Busy {
			all += b
		}
		if sum := beside.BusyByClass[0] + beside.BusyByClass[1]; sum != all {
			t.Errorf("paged %v: GPUs are busy for %v, by class for %v", paged, all, sum)
		}
		if bc.Bad() > 0 || ls.BadRate() > alone.All.BadRate()+0.005 {
			t.Errorf("paged %v: %d of best effort are lost; bad rate %.4f, alone %.4f", paged, bc.Bad(), ls.BadRate(), alone.All.BadRate())
		}
		there := 3*4*mono.Second - mono.Second // of GPU time: one is lost for a second
		if left := there - beside.BusyByClass[0]; beside.BusyByClass[1] < left/10*8 {
			t.Errorf("paged %v: best effort takes %v of %v", paged, beside.BusyByClass[1], left)
		}
		if !reflect.DeepEqual(run(true), beside) {
			t.Errorf("paged %v: a second run differs", paged)
		}
	}
}
