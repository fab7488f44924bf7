package policytest

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Load is a row of a paper's table: one model alone on GPUs, what is offered,
// and the bands in which what is served and the median batch must lie.
type Load struct {
	Model     policy.Model
	GPUs      int
	Seconds   float64
	Rate      float64 // offered, requests/s
	Low, High float64 // served, requests/s
	Least     int     // median batch
	Most      int
}

// Check runs the load through a scheduler.
func (k *Load) Check(t *testing.T, newScheduler func(policy.Config) policy.Scheduler) {
	t.Helper()
	cfg := policy.Config{RequestsMax: 1 << 16, Seed: 1}
	c := NewCluster(t, cfg, newScheduler(cfg), []policy.Model{k.Model}, k.GPUs)
	c.Poisson(mono.FromSeconds(k.Seconds), k.Rate)
	c.Drain()
	served, median := float64(c.Served)/k.Seconds, c.Median()
	t.Logf("SLO %v, %.0f requests/s: %.0f served, median batch %d; %v", k.Model.SLO, k.Rate, served, median, &c.Tally)
	if served < k.Low || served > k.High || median < k.Least || median > k.Most {
		t.Errorf("SLO %v, %.0f requests/s: %.0f served in batches of %d; want %.0f to %.0f in %d to %d",
			k.Model.SLO, k.Rate, served, median, k.Low, k.High, k.Least, k.Most)
	}
}
