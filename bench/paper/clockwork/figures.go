package clockwork

import (
	"github.com/symphony-serving/symphony/bench/paper"
	"github.com/symphony-serving/symphony/bench/workload"
)

// Options of the figures with a trace; the zero Options are the paper's.
type Options struct {
	GPUs    int              // of figure 8; 0: 12 and 6
	Mapping workload.Mapping // of figure 8; "": both
	Seconds float64          // counted of figure 8 and of the table; 0: 8 h, and 1 h
}

func (o Options) gpus() []int {
	if o.GPUs > 0 {
		return []int{o.GPUs}
	}
	return []int{12, 6}
}

func (o Options) mappings() []workload.Mapping {
	if o.Mapping != "" {
		return []workload.Mapping{o.Mapping}
	}
	return []workload.Mapping{workload.Striped, workload.Sorted}
}

// Book is the Clockwork paper.
func Book(o Options) paper.Book {
	return paper.Book{
		Intro: "# The evaluation of Clockwork, run again\n\nMade by `symphony bench paper --of clockwork`. Every number is from the simulator, on V100s as Clockwork's Table 1 has them. " +
			"The trace of Azure's functions is not here: where it is due stands a synthetic one, on which as much is cold for Clockwork's scheduler as the paper tells; how much is lost depends on the seed, and this one (11) is harder than the paper's trace (docs/decisions/0073). Clockwork is its own scheduler with loads; Symphony is deferred batch scheduling with paged GPUs, of which nothing is deferred while a GPU is idle and no best effort waits.\n\n",
		Figures: []paper.Figure{
			{ID: "fig5", Title: "Figure 5: goodput of 15 models on one GPU against the SLO", Run: fig5},
			{ID: "fig6", Title: "Figure 6: 3,601 models on one GPU", Run: fig6},
			{ID: "fig7left", Title: "Figure 7 (left): how low the SLO can go", Run: fig7left},
			{ID: "fig7right", Title: "Figure 7 (right): batch clients beside latency-sensitive ones", Run: fig7right},
			{ID: "fig8", Title: "Figure 8: 4,026 models and 17,000 functions (synthetic)", Run: o.fig8},
			{ID: "table65", Title: "Table of section 6.5: tighter SLOs at larger scale (synthetic)", Run: o.table65},
			{ID: "compare", Title: "Ours against Clockwork's, on the same seeds", Run: o.compare},
		},
	}
}
