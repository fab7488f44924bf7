package clockwork

import (
	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// even is figure 7's shape at any rate: 6 GPUs that hold N ResNet50, asked for alike.
type even struct {
	System        string `json:",omitempty"` // key
	N             int
	SLO           float64 // ms
	Warmup, Count float64 // s
	Seed          uint64
}

// evenAt is a run at one rate.
type evenAt struct {
	even
	Rate float64 // requests/s of all
}

// evenRun is what came of it.
type evenRun struct {
	Offered, Served float64 // requests/s
	Busy            float64 // share of the GPUs' time
	Need            float64 // the share that the whole deferral would keep busy
}

func (e even) config(rate float64) (*sim.Config, error) {
	models, err := ResNets(e.N, mono.FromMillis(e.SLO))
	if err != nil {
		return nil, err
	}
	for i := range models {
		models[i].Stream = workload.Stream{Process: workload.Poisson, Rate: rate / float64(e.N)}
	}
	cfg := Cluster(e.System, models, gpus7, nil, mono.FromSeconds(e.Warmup), mono.FromSeconds(e.Count), e.Seed)
	cfg.Paging.Held = everywhere(e.N, gpus7)
	return cfg, nil
}

// peak is the highest rate of which 99 % are in time (sim.Search), to within half a percent.
func (e even) peak(stop func() bool) (float64, error) {
	search := sim.Search{At: e.config, Groups: make([]int, e.N), Guess: 4000, Tolerance: 0.005, Stop: stop}
	g, err := search.Run()
	return g.Rate, err
}

func (e evenAt) run(stop func() bool) (evenRun, error) {
	cfg, err := e.config(e.Rate)
	if err != nil {
		return evenRun{}, err
	}
	res, err := sim.Run(cfg, stop)
	if err != nil {
		return evenRun{}, err
	}
	return evenRun{Offered: res.Offered(), Served: res.Served(), Busy: res.Utilisation(gpus7), Need: res.NeedMean / gpus7}, nil
}
