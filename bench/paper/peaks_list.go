package paper

import (
	"fmt"
)

// keptWorkload is a workload at whose peak nothing may be lost.
type keptWorkload struct {
	Set, Name string
	Workload  Workload
}

// keptWorkloads are those of table 2, figure 9, the test of the flat top
// (scheduler/coretest), figure 11, and one in which full batches need
// the GPUs that early ones would take.
func keptWorkloads() []keptWorkload {
	var out []keptWorkload
	add := func(set, name string, w Workload) { out = append(out, keptWorkload{set, name, w}) }
	for _, k := range singles() {
		add("table 2", k.name()+", 8 GPUs", k.workload)
	}
	add("strong batching", "8 x (0.5 b + 8 ms), SLO 30 ms, 16 GPUs", strong16())
	for _, m := range mixes9() {
		add("figure 9", m.zoo+" "+m.name, Workload{Models: m.models, GPUs: 64})
	}
	out = append(out, flatTops()...)
	for _, p := range panels11() {
		for _, slo := range []float64{15, 20, 25, 30, 40, 50, 60, 80, 100} {
			add("figure 11", fmt.Sprintf("%s, SLO %g ms", p.title, slo), p.workload(slo))
		}
	}
	return out
}

func strong16() Workload {
	return Workload{Models: []Model{{Name: "strong", Alpha: 0.5, Beta: 8, SLO: 30, Count: 8}}, GPUs: 16}
}

// flatTops are the workloads of TestFlatTop in scheduler/coretest.
func flatTops() []keptWorkload {
	one := func(name string, alpha, beta, slo float64, count int) []Model {
		return []Model{{Name: name, Alpha: alpha, Beta: beta, SLO: slo, Count: count}}
	}
	dense := func() []Model { return one("DenseNet121", 1.061, 10.312, 30, 8) }
	bert := func(n int) []Model { return one("BERT", 7.008, 0.159, 56, n) }
	resnets := func() []Model { return one("ResNet50 1080Ti", 2.05, 5.378, 100, 10) }
	var out []keptWorkload
	add := func(name string, models []Model, gpus int, shape float64) {
		w := Workload{Models: models, GPUs: gpus}
		if shape != 1 {
			w.Arrivals, w.Shape = "gamma", shape
		}
		out = append(out, keptWorkload{"flat top", name, w})
	}
	add("ResNet50, 8 GPUs", one("ResNet50", 1.053, 5.072, 25, 1), 8, 1)
	add("ResNet50, 8 GPUs, Gamma 0.3", one("ResNet50", 1.053, 5.072, 25, 1), 8, 0.3)
	add("ResNet50, SLO 100 ms, 8 GPUs, Gamma 0.05", one("ResNet50", 1.053, 5.072, 100, 1), 8, 0.05)
	add("slow model, 1 GPU", one("slow", 10, 50, 400, 1), 1, 1)
	add("slow model, 2 GPUs", one("slow", 10, 50, 250, 1), 2, 1)
	add("8 x DenseNet121, 8 GPUs", dense(), 8, 1)
	add("8 x DenseNet121, 16 GPUs", dense(), 16, 1)
	add("8 x DenseNet121, 32 GPUs, Gamma 0.1", dense(), 32, 0.1)
	add("BERT, 4 GPUs", bert(1), 4, 1)
	add("4 x BERT, 4 GPUs", bert(4), 4, 1)
	add("10 x ResNet50 1080Ti, 8 GPUs", resnets(), 8, 1)
	add("10 x ResNet50 1080Ti, 8 GPUs, Gamma 0.2", resnets(), 8, 0.2)
	var mixed []Model
	for i, m := range [][3]float64{{0.57, 14.348, 33}, {1.271, 13.618, 37}, {0.893, 2.181, 20}, {3.464, 7.154, 42}, {6.121, 2.283, 53}, {7.353, 0.222, 59}} {
		mixed = append(mixed, one(fmt.Sprintf("zoo%d", i), m[0], m[1], m[2], 1)...)
	}
	add("6 models of the zoo, 24 GPUs", mixed, 24, 1)
	return out
}

// fourOnOne is four ordinary models that share one GPU.
func fourOnOne() Workload {
	return Workload{GPUs: 1, Models: []Model{{Name: "a", Alpha: 0.3, Beta: 2, SLO: 20}, {Name: "b", Alpha: 0.5, Beta: 5, SLO: 50},
		{Name: "c", Alpha: 1, Beta: 8, SLO: 80}, {Name: "d", Alpha: 0.2, Beta: 1, SLO: 12}}}
}
