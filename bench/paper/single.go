package paper

import (
	"math"

	"github.com/symphony-serving/symphony/bench/sim"
)

// single is one of the two workloads of Table 2, Figures 1 and 12, with what
// the paper measured.
type single struct {
	workload Workload
	goodput  map[string]float64 // system -> r/s, Table 2
	median   map[string]int     // system -> batch size, Figure 1
}

func (k *single) name() string { return k.workload.Models[0].Name }

// singles are the profiles and the measured columns of Table 2.
func singles() []single {
	one := func(name string, alpha, beta, slo float64) Workload {
		return Workload{Models: []Model{{Name: name, Alpha: alpha, Beta: beta, SLO: slo}}, GPUs: 8}
	}
	return []single{
		{one("ResNet50", 1.053, 5.072, 25),
			map[string]float64{Symphony: 5264, Clockwork: 1358, Nexus1FE: 4027, Shepherd: 4445},
			map[string]int{Symphony: 14, Clockwork: 1, Nexus1FE: 6, Shepherd: 9}},
		{one("InceptionResNetV2", 5.090, 18.368, 70),
			map[string]float64{Symphony: 926, Clockwork: 458, Nexus1FE: 618, Shepherd: 778},
			map[string]int{Symphony: 8, Clockwork: 1, Nexus1FE: 2, Shepherd: 4}},
	}
}

// fourSystems: the paper does not say how many frontends its Nexus has but in
// Figure 9; one is the stronger choice, and Table 2 agrees with it.
func fourSystems() []string { return []string{Symphony, Clockwork, Nexus1FE, Shepherd} }

// overloadOf is the rate that is offered to see a system beyond its peak: half
// as much again as any schedule carries.
func overloadOf(w *Workload) (float64, error) {
	_, bound, err := w.Staggered()
	return math.Round(1.5 * bound), err
}

// collapsed is the name of Clockwork's series beyond its peak.
const collapsed = Clockwork + ", overloaded"

// distribution is one system's run at its goodput, with histograms.
type distribution struct {
	name string // of the series
	rate float64
	Measures
}

// distributions runs each single workload with each system at the system's own
// goodput, and Clockwork beyond it: that is the state which the paper shows.
func distributions(s *Session) ([][]distribution, error) {
	list, systems := singles(), fourSystems()
	var workloads []Workload
	for _, k := range list {
		workloads = append(workloads, k.workload)
	}
	peaks, err := s.SearchEach(systems, workloads, false)
	if err != nil {
		return nil, err
	}
	out := make([][]distribution, len(list))
	var jobs []RunJob
	for i := range list {
		for k, system := range systems {
			out[i] = append(out[i], distribution{name: system, rate: peaks[i][k].Rate})
			jobs = append(jobs, s.Measure(system, workloads[i], peaks[i][k].Rate))
		}
		over, err := overloadOf(&workloads[i])
		if err != nil {
			return nil, err
		}
		out[i] = append(out[i], distribution{name: collapsed, rate: over})
		jobs = append(jobs, s.Measure(Clockwork, workloads[i], over))
	}
	for i := range jobs {
		jobs[i].Histograms = true
	}
	runs, err := s.Runs(jobs)
	if err != nil {
		return nil, err
	}
	for i := range out {
		for k := range out[i] {
			out[i][k].Measures = runs[i*len(out[i])+k]
		}
	}
	s.Note("Each system runs at its own goodput. %q is offered 1.5 times the staggered bound: batches of one, as in the paper's figure, are what Clockwork falls to there (see table2).", collapsed)
	return out, nil
}

// samplesMax bounds what a CDF is drawn from; its quantiles are enough.
const samplesMax = 2000

// samples are values whose distribution is the histogram's, unit*index each.
func samples(histogram []int64, unit float64) []float64 {
	var all, sum int64
	for _, n := range histogram {
		all += n
	}
	n := min(all, samplesMax)
	var out []float64
	for i, k := range histogram {
		sum += k
		for int64(len(out))*all < sum*n {
			out = append(out, unit*float64(i))
		}
	}
	return out
}

// quantile of a histogram whose bins are unit wide.
func quantile(histogram []int64, unit, q float64) float64 {
	return unit * float64(sim.Percentile(histogram, q))
}
