package draws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Outcome is one mix's results by policy.
type Outcome struct {
	Ours  string // the policy that is compared
	Mix   *Mix
	Span  Span
	Found map[string]Found
	Over  map[string]Over
	Again *Outcome // a longer one, with other arrivals; nil: not measured again
	Ran   Found    // what was simulated now
	Took  float64  // seconds
}

// compared are the policies of which a report tells: ours and today's.
func compared(ours string) []string { return slices.Compact([]string{ours, Today}) }

// Best is the best goodput as first measured; 0 if there is none.
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
	rates := o.rates()
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		if name != policy && name != o.Ours && rates[name] > rate {
			rate, by = rates[name], name
		}
	}
	return rate, by
}

// hasOther tells whether others of a policy were measured.
func (o *Outcome) hasOther(policy string) bool {
	for name := range o.Found {
		if name != policy && name != o.Ours {
			return true
		}
	}
	return false
}

// ratioMax stands for infinity where no other has a goodput.
const ratioMax = 10

// Ratio is a policy's goodput to the best of its others'. Where none of these was
// measured again, which may be with today's, it is as first measured. Where they were, and
// then neither they nor the policy have a goodput, there is none: what was seen first was chance.
func (o *Outcome) Ratio(policy string) (ratio float64, ok bool) {
	ours, ok := o.rates()[policy]
	rate, by := o.BestOther(policy)
	if by == "" && o.Again != nil && !o.Again.hasOther(policy) {
		return o.first().Ratio(policy)
	}
	if !ok || by == "" && ours == 0 {
		return 0, false
	}
	return min(ratioMax, ours/rate), true
}

// Served is what a policy serves at 1.5 times the peak, as a part of the peak;
// other is the most that any of its others does.
func (o *Outcome) Served(policy string) (served, other float64, ok bool) {
	v, ok := o.Over[policy]
	for name, w := range o.Over {
		if name != policy && name != o.Ours {
			other = max(other, w.Served)
		}
	}
	return v.Served, other, ok
}

// byRate are the policies that have a goodput, the best first, as first
// measured.
func (o *Outcome) byRate() []string {
	names := slices.SortedFunc(maps.Keys(o.Found), func(a, b string) int {
		return cmp.Or(cmp.Compare(o.Found[b].Rate, o.Found[a].Rate), cmp.Compare(a, b))
	})
	return slices.DeleteFunc(names, func(name string) bool { return o.Found[name].Rate == 0 })
}

// Line is the outcome in a line.
func (o *Outcome) Line() string {
	var b strings.Builder
	rate, by := o.first().BestOther(o.Ours)
	fmt.Fprintf(&b, "%-7s", o.Mix.Name())
	for _, name := range compared(o.Ours) {
		if ratio, ok := o.Ratio(name); ok {
			fmt.Fprintf(&b, " %s %.3f", name, ratio)
			if o.Again != nil {
				first, _ := o.first().Ratio(name)
				fmt.Fprintf(&b, " (first %.3f)", first)
			}
			if served, other, ok := o.Served(name); ok {
				fmt.Fprintf(&b, " (1.5x: %.2f, others %.2f)", served, other)
			}
		}
	}
	fmt.Fprintf(&b, " | %s %.4g r/s", by, rate)
	for _, name := range o.byRate() {
		if name != by && rate > 0 {
			fmt.Fprintf(&b, " %s %.3f", name, o.Found[name].Rate/rate)
		}
	}
	fmt.Fprintf(&b, " | %s | span %g s", o.Mix, o.Span.Seconds)
	if o.Ran.Runs > 0 {
		fmt.Fprintf(&b, ", %d runs, %.1f M requests, %.1f s", o.Ran.Runs, float64(o.Ran.Requests)/1e6, o.Took)
	}
	return b.String()
}
