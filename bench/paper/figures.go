package paper

import (
	"fmt"
	"slices"
	"strings"
)

// Figure is one figure or table of the paper.
type Figure struct {
	ID, Title string
	Run       func(*Session) error
}

// Figures lists all, in the report's order. One line each.
func Figures() []Figure {
	return []Figure{
		{"fig1", "Figure 1: batch size distribution", fig1},
		{"fig2", "Figure 2: goodput and GPU utilisation against the offered load", fig2},
		{"fig4", "Figure 4: deferred scheduling forms a staggered execution", fig4},
		{"fig5", "Figure 5: reaction to three missing requests", fig5},
		{"fig6a", "Figure 6a: deferred against eager, by the strength of batching", fig6a},
		{"fig6b", "Figure 6b: deferred against timeouts", fig6b},
		{"fig7", "Figure 7: deferred against eager over synthetic workloads", fig7},
		{"fig9", "Figure 9: goodput of mixed models", fig9},
		{"fig10", "Figure 10: least GPUs for 15,000 requests/s", fig10},
		{"fig11", "Figure 11: SLO, popularity and arrivals", fig11},
		{"fig12", "Figure 12: queueing delay", fig12},
		{"fig13", "Figure 13 (right): goodput against GPUs", fig13},
		{"fig14", "Figure 14: effect of the network's delay", fig14},
		{"fig15", "Figure 15: a changing workload on 512 GPUs", fig15},
		{"table2", "Table 2: analysis of batching and measured goodput", table2},
	}
}

// Waiting tells what has no figure here yet, and why.
const Waiting = "fig16 (balance of sub-clusters) waits for the partitioner."

// Choose finds figures by name, in the report's order; "all" or nothing means
// all. An unknown name is an error that lists those there are.
func Choose(names []string) ([]Figure, error) {
	all := Figures()
	var known []string
	for _, f := range all {
		known = append(known, f.ID)
	}
	for _, n := range names {
		if n != "all" && !slices.Contains(known, n) {
			return nil, fmt.Errorf("no figure %q; there are: %s, all", n, strings.Join(known, ", "))
		}
	}
	if len(names) == 0 || slices.Contains(names, "all") {
		return all, nil
	}
	return slices.DeleteFunc(all, func(f Figure) bool { return !slices.Contains(names, f.ID) }), nil
}
