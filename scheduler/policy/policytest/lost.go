package policytest

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
)

// LostGPU loses two GPUs, one after the other, that return at once: four
// requests with time enough wait again and are served, three with 6 ms left,
// which is what one alone takes, may be. want is how many are served.
func LostGPU(t *testing.T, newScheduler func(policy.Config) policy.Scheduler, want int) {
	t.Helper()
	cfg := policy.Config{RequestsMax: 100}
	c := NewCluster(t, cfg, newScheduler(cfg), Two(t), 2)
	c.Submit(0, 4, 30*mono.Millisecond)
	c.Submit(1, 3, 9*mono.Millisecond)
	c.Advance(mono.Time(3 * mono.Millisecond))
	runs := slices.Clone(c.runs)
	if len(runs) != 2 {
		t.Fatalf("%d batches run, want one on each GPU", len(runs))
	}
	for _, i := range []int{1, 0} {
		c.Lose(runs[i].GPU)
		c.Return(runs[i].GPU)
	}
	c.Drain()
	if c.Served != want || c.Late != 0 {
		t.Errorf("%v; want %d served, 0 late", &c.Tally, want)
	}
}
