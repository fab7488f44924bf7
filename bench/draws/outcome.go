package draws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Best is the best goodput; 0 if there is none.
func (o *Outcome) Best() float64 {
	best := 0.0
	for _, f := range o.Found {
		best = max(best, f.Rate)
	}
	return best
}

// BestOther is the best goodput of the others of a policy, and whose. Ours is
// no other of what it replaces.
func (o *Outcome) BestOther(policy string) (rate float64, by string) {
	for _, name := range slices.Sorted(maps.Keys(o.Found)) {
		if name == policy || name == Ours {
			continue
		}
		if f := o.Found[name]; f.Rate > rate {
			rate, by = f.Rate, name
		}
	}
	return rate, by
}

// ratioMax stands for infinity where no other has a goodput.
const ratioMax = 10

// Ratio is a policy's goodput to the best of its others'.
func (o *Outcome) Ratio(policy string) (ratio float64, ok bool) {
	f, ok := o.Found[policy]
	rate, by := o.BestOther(policy)
	if !ok || by == "" && f.Rate == 0 {
		return 0, false
	}
	return min(ratioMax, f.Rate/rate), true
}

// Served is what a policy serves at 1.5 times the peak, as a part of the peak;
// Other is the most that any of its others does.
func (o *Outcome) Served(policy string) (served, other float64, ok bool) {
	v, ok := o.Over[policy]
	for name, w := range o.Over {
		if name != policy && name != Ours {
			other = max(other, w.Served)
		}
	}
	return v.Served, other, ok
}

// Line is the outcome in a line.
func (o *Outcome) Line() string {
	var b strings.Builder
	rate, by := o.BestOther(Ours)
	fmt.Fprintf(&b, "%-7s", o.Mix.Name())
	for _, name := range []string{Ours, Today} {
		if ratio, ok := o.Ratio(name); ok {
			fmt.Fprintf(&b, " %s %.3f", name, ratio)
			if served, other, ok := o.Served(name); ok {
				fmt.Fprintf(&b, " (1.5x: %.2f, others %.2f)", served, other)
			}
		}
	}
	fmt.Fprintf(&b, " | %s %.4g r/s", by, rate)
	for _, name := range slices.SortedFunc(maps.Keys(o.Found), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.Found[b].Rate, o.Found[a].Rate), cmp.Compare(a, b))
	}) {
		if f := o.Found[name]; name != by && f.Rate > 0 && rate > 0 {
			fmt.Fprintf(&b, " %s %.3f", name, f.Rate/rate)
		}
	}
	fmt.Fprintf(&b, " | %s | span %g s", o.Mix, o.Span.Seconds)
	if o.Ran.Runs > 0 {
		fmt.Fprintf(&b, ", %d runs, %.1f M requests, %.1f s", o.Ran.Runs, float64(o.Ran.Requests)/1e6, o.Took)
	}
	return b.String()
}
