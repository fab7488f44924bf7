package frontier

import (
	"strings"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Workload is a mix on a cluster.
type Workload struct {
	Name       string // of its files
	Title      string
	Models     string // as --models has it
	GPUs       int
	Popularity string
	Arrivals   string
	Warmup     float64   // s; what Symphony keeps of its GPUs settles in tens of seconds
	Seconds    float64   // that count
	Rates      []float64 // that are simulated beside the shares of the goodput, requests/s
}

// Rule is a policy, and how it is called in tables and plots.
type Rule struct{ Name, Policy string }

// Rules, from no waiting to all of it, and then ours by headroom.
func Rules() []Rule {
	return []Rule{
		{"eager", "eager"},
		{"eager/target", "eager/target"},
		{"timeout/target:0.2", "timeout/target:0.2"},
		{"symphony/defer", "symphony/defer"},
		{"headroom 0", "symphony/headroom:0"},
		{"headroom 0.1", "symphony/headroom:0.1"},
		{"headroom 0.25", "symphony/headroom:0.25"},
		{"headroom 0.5", "symphony/headroom:0.5"},
		{headroomAll, "symphony"},
	}
}

const headroomAll = "headroom all"

// searched are the rules whose goodput is sought; the highest is the workload's 100 %.
func searched() []Rule {
	return []Rule{{headroomAll, "symphony"}, {"symphony/defer", "symphony/defer"}, {"eager/target", "eager/target"}, {"timeout/target:0.2", "timeout/target:0.2"}}
}

// loads are shares of the goodput.
func loads(quick bool) []float64 {
	if quick {
		return []float64{0.1, 0.5, 0.9}
	}
	return []float64{0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 1}
}

// Workloads that are simulated.
func Workloads(quick bool) []Workload {
	const resnet = "ResNet50:1.053:5.072:25" // of the Symphony paper's table 2
	all := []Workload{
		{Name: "a100", Title: "A100 zoo, 37 models on 64 GPUs", Models: "zoo:a100", GPUs: 64, Warmup: 20, Seconds: 10, Rates: []float64{1600, 4800, 9600, 12000, 14400, 17500}},
		{Name: "1080ti", Title: "1080Ti zoo on 64 GPUs", Models: "zoo:1080ti", GPUs: 64, Warmup: 20, Seconds: 10},
		{Name: "resnet50", Title: "One model, ResNet50, on 8 GPUs", Models: resnet, GPUs: 8, Warmup: 20, Seconds: 10},
		{Name: "four", Title: "Four models, SLOs 12 to 80 ms, on 1 GPU", Models: "a:0.3:2:20,b:0.5:5:50,c:1:8:80,d:0.2:1:12", GPUs: 1, Warmup: 30, Seconds: 40},
		{Name: "ten", Title: "Ten models, Zipf 0.9, on 6 GPUs", Models: tenModels, GPUs: 6, Popularity: "zipf:0.9", Warmup: 20, Seconds: 20},
		{Name: "bursts", Title: "Bursts: 20 x ResNet50, Gamma 0.05, on 32 GPUs", Models: "20x" + resnet, GPUs: 32, Arrivals: "gamma:0.05", Warmup: 20, Seconds: 10},
	}
	if !quick {
		return all
	}
	for i := range all {
		all[i].Warmup, all[i].Seconds, all[i].Rates = all[i].Warmup/4, all[i].Seconds/2, nil
	}
	return all
}

// tenModels: alpha over a decade, beta/alpha 3 to 18, SLOs 2.5 to 8 times l(1).
const tenModels = "m0:0.2:1.2:11,m1:0.26:4.2:14,m2:0.33:1.0:7,m3:0.43:3.0:27,m4:0.55:8.2:22,m5:0.72:2.2:12,m6:0.93:5.6:41,m7:1.2:14:52,m8:1.55:4.7:50,m9:2:16:45"

// plan is the simulation of a rule at a rate; 0 where a search finds it.
func (w *Workload) plan(r Rule, rate float64) (*scenario.Plan, error) {
	models, err := scenario.ParseModels(strings.Split(w.Models, ","))
	if err != nil {
		return nil, err
	}
	return scenario.Scenario{Models: models, GPUs: w.GPUs, Policy: r.Policy, Rate: rate, Popularity: w.Popularity, Arrivals: w.Arrivals,
		Warmup: mono.FromSeconds(w.Warmup), Duration: mono.FromSeconds(w.Seconds), Seed: seed}.Plan()
}

const seed = 11
