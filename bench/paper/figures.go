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
	// ByName: no figure of the paper, and long: made where its name is given, not with all.
	ByName bool
}

// Figures lists all, in the report's order. One line each.
func Figures() []Figure {
	return []Figure{
		{"fig1", "Figure 1: batch size distribution", fig1, false},
		{"fig2", "Figure 2: goodput and GPU utilisation against the offered load", fig2, false},
		{"fig4", "Figure 4: deferred scheduling forms a staggered execution", fig4, false},
		{"fig5", "Figure 5: reaction to three missing requests", fig5, false},
		{"fig6a", "Figure 6a: deferred against eager, by the strength of batching", fig6a, false},
		{"fig6b", "Figure 6b: deferred against timeouts", fig6b, false},
		{"fig7", "Figure 7: deferred against eager over synthetic workloads", fig7, false},
		{"fig9", "Figure 9: goodput of mixed models", fig9, false},
		{"fig10", "Figure 10: least GPUs for 15,000 requests/s", fig10, false},
		{"fig11", "Figure 11: SLO, popularity and arrivals", fig11, false},
		{"fig12", "Figure 12: queueing delay", fig12, false},
		{"fig13", "Figure 13 (right): goodput against GPUs", fig13, false},
		{"fig14", "Figure 14: effect of the network's delay", fig14, false},
		{"fig15", "Figure 15: a changing workload on 512 GPUs", fig15, false},
		{"fig16", "Figure 16: balance of sub-clusters, and the GPUs they need", fig16, false},
		{"table2", "Table 2: analysis of batching and measured goodput", table2, false},
		{"peaks", "Nothing lost at the peaks: Symphony against its whole deferral", peaks, true},
		{"peaks7", "The same over Figure 7's synthetic workloads", peaks7, true},
		{"surges", "Nothing lost in surges and bursts", surges, true},
		{"acting", "Figure 15 with acting: GPUs come and go as advised", actingFig, true},
		{"pauses", "Nothing lost where the scheduler stands still now and then", pausing, true},
	}
}

// Book is a paper whose evaluation is run again: its figures, and what its report says
// before them.
type Book struct {
	Intro   string // Markdown
	Figures []Figure
}

// symphony is the Symphony paper.
func symphony() Book { return Book{intro(), Figures()} }

// Choose finds figures by name, in the report's order; "all" or nothing means
// the paper's. An unknown name is an error that lists those there are.
func Choose(names []string) ([]Figure, error) { return symphony().Choose(names) }

// Choose finds figures of the book by name, as the function does.
func (b Book) Choose(names []string) ([]Figure, error) {
	all := b.Figures
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
		return slices.DeleteFunc(all, func(f Figure) bool { return f.ByName && !slices.Contains(names, f.ID) }), nil
	}
	return slices.DeleteFunc(all, func(f Figure) bool { return !slices.Contains(names, f.ID) }), nil
}
