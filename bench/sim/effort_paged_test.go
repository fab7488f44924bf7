package sim

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pagedEffort is paged GPUs of which nobody holds anything: so many models with deadlines of 100 ms, asked so often all together, and so
// many with batch clients. A model takes one page, and 8 ms to load.
type pagedEffort struct {
	gpus, pages    int
	online         int
	rate           float64
	batch, clients int
	seconds        int
}

func (k pagedEffort) run(t *testing.T) *Result {
	t.Helper()
	p, err := profile.Linear(mono.Millisecond, 4*mono.Millisecond, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{GPUs: k.gpus, Warmup: mono.Second, Duration: mono.Dur(k.seconds) * mono.Second, Seed: 7, Paging: Paging{Pages: k.pages}}
	cfg.NewPolicy = func(c policy.Config) policy.Scheduler { return deferred.NewPaged(c, deferred.PagedOptions{}) }
	var streams []workload.Stream
	var clients []int
	for i := range k.online + k.batch {
		m := Model{Name: "m", Profile: p, SLO: 100 * mono.Millisecond, Pages: 1, LoadTime: 8 * mono.Millisecond}
		if i < k.online {
			streams = append(streams, workload.Stream{Process: workload.Poisson, Rate: k.rate / float64(k.online)})
			clients = append(clients, 0)
		} else {
			m.Class, m.SLO = wire.ClassBestEffort, 3600*mono.Second
			clients = append(clients, k.clients)
		}
		cfg.Models = append(cfg.Models, m)
	}
	var mix workload.Source
	if k.online > 0 {
		if mix, err = workload.NewMix(streams, cfg.Seed); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.Source = mix; k.batch > 0 {
		if cfg.Source, err = workload.NewClients(clients, mono.Millisecond, 100*mono.Millisecond, mix); err != nil {
			t.Fatal(err)
		}
	}
	res, err := Run(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Models that only best effort asks for are loaded for it, more than there is room for by turns; the GPUs have little pause, and each model
// gets about the same.
func TestBestEffortAloneIsLoaded(t *testing.T) {
	for name, k := range map[string]pagedEffort{
		"room for all":                 {gpus: 2, pages: 8, batch: 6, clients: 16, seconds: 20},
		"one model, many clients":      {gpus: 3, pages: 8, batch: 1, clients: 80, seconds: 20},
		"one model on one GPU, of two": {gpus: 1, pages: 1, batch: 2, clients: 16, seconds: 20},
		"a GPU for two, of five":       {gpus: 1, pages: 2, batch: 5, clients: 8, seconds: 20},
		"four times what fits":         {gpus: 2, pages: 4, batch: 32, clients: 4, seconds: 60},
	} {
		t.Run(name, func(t *testing.T) {
			r := k.run(t)
			least, most := int64(1<<62), int64(0)
			for i := range r.Models {
				least, most = min(least, r.Models[i].Served), max(most, r.Models[i].Served)
			}
			var busy mono.Dur
			for _, b := range r.Busy {
				busy += b
			}
			part := float64(busy) / float64(mono.Dur(k.gpus*k.seconds)*mono.Second)
			t.Logf("GPUs busy %.3f, models served %d to %d, %d loads, %d unloads", part, least, most, r.Loads.Done, r.Loads.Unloads)
			if part < 0.75 || least*2 < most {
				t.Errorf("GPUs are busy for %.3f of the time, of the models one is served %d times and one %d times", part, least, most)
			}
		})
	}
}

// Requests with deadlines lose nothing by best effort beside them: where all fit, where their models are more than there is
// room for, and where they need much of the GPUs.
func TestPagedDeadlinesBesideBestEffort(t *testing.T) {
	for name, k := range map[string]pagedEffort{
		"all fit":           {gpus: 2, pages: 16, online: 8, rate: 300, batch: 6, clients: 16, seconds: 20},
		"the others fit":    {gpus: 2, pages: 8, online: 14, rate: 300, batch: 6, clients: 16, seconds: 20},
		"more than fit":     {gpus: 2, pages: 8, online: 40, rate: 200, batch: 6, clients: 16, seconds: 20},
		"many on two pages": {gpus: 3, pages: 2, online: 20, rate: 60, batch: 3, clients: 16, seconds: 20},
		"many models":       {gpus: 2, pages: 100, online: 400, rate: 200, batch: 3, clients: 16, seconds: 60},
		"seldom asked":      {gpus: 2, pages: 100, online: 400, rate: 20, batch: 3, clients: 16, seconds: 60},
		"a high load":       {gpus: 2, pages: 8, online: 12, rate: 900, batch: 6, clients: 16, seconds: 20},
	} {
		t.Run(name, func(t *testing.T) {
			alone := k
			alone.batch = 0
			a, b := alone.run(t), k.run(t)
			ls, bc := &b.ByClass[wire.ClassLatency], &b.ByClass[wire.ClassBestEffort]
			t.Logf("bad %d of %d, alone %d; cold %d, alone %d; loads %d, alone %d; best effort served %d, GPU time %v of %v",
				ls.Bad(), ls.Arrived, a.All.Bad(), ls.Cold, a.All.Cold, b.Loads.Done, a.Loads.Done, bc.Served, b.BusyByClass[1], b.Busy)
			if ls.Bad() > a.All.Bad()+ls.Arrived/500 {
				t.Errorf("%d of %d requests with deadlines are lost, alone %d", ls.Bad(), ls.Arrived, a.All.Bad())
			}
		})
	}
}
