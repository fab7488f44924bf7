package clockwork

import "github.com/symphony-serving/symphony/bench/paper"

// Book is the Clockwork paper.
func Book() paper.Book {
	return paper.Book{
		Intro: "# The evaluation of Clockwork, run again\n\nMade by `symphony bench paper --of clockwork`. Every number is from the simulator, on V100s as Clockwork's Table 1 has them. " +
			"The trace of Azure's functions is not here: where it is due stands a synthetic one with its totals.\n\n",
		Figures: []paper.Figure{
			{ID: "fig5", Title: "Figure 5: goodput of 15 models on one GPU against the SLO", Run: fig5},
			{ID: "fig6", Title: "Figure 6: 3,601 models on one GPU", Run: fig6},
			{ID: "fig7left", Title: "Figure 7 (left): how low the SLO can go", Run: fig7left},
			{ID: "fig7right", Title: "Figure 7 (right): batch clients beside latency-sensitive ones", Run: fig7right},
			{ID: "fig8", Title: "Figure 8: 4,026 models and 17,000 functions (synthetic)", Run: fig8},
			{ID: "table65", Title: "Table of section 6.5: tighter SLOs at larger scale (synthetic)", Run: table65},
		},
	}
}
