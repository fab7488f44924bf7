package paper

import (
	"testing"

	"github.com/symphony-serving/symphony/bench/plot"
)

func TestFewerGPUs(t *testing.T) {
	of := func(each ...int) LeastResult {
		r := LeastResult{Each: each}
		for _, n := range each {
			if r.GPUs = max(r.GPUs, n); n == 0 {
				r.GPUs = 0
				break
			}
		}
		return r
	}
	for _, c := range []struct {
		ours, other LeastResult
		want        Verdict
	}{
		{of(20, 20, 20), of(21, 21, 21), yes},
		{of(20, 20, 20), of(20, 20, 20), Draw},
		{of(20, 20, 21), of(20, 21, 21), Draw},
		{of(21), of(20), no},
		{of(20), of(0), yes}, // not even the most were enough
		{of(0), of(20), no},
	} {
		if got := fewer(c.ours, c.other); got != c.want {
			t.Errorf("%v against %v: %s, want %s", c.ours.Each, c.other.Each, got, c.want)
		}
	}
}

// The bar of eager is the one of the drop policy that needs fewer GPUs.
func TestBetterOfBoth(t *testing.T) {
	got := betterOfBoth([]plot.BarSeries{{Name: Symphony}, {Name: Eager, Bars: []plot.Bar{{Value: 9}, {Missing: true}, {Value: 7}}},
		{Name: EagerTarget, Bars: []plot.Bar{{Value: 8}, {Value: 5}, {Missing: true}}}})
	if len(got) != 2 || got[1].Bars[0].Value != 8 || got[1].Bars[1].Value != 5 || got[1].Bars[2].Value != 7 {
		t.Errorf("%+v", got)
	}
}
