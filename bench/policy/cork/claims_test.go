package cork

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/policytest"
	"github.com/symphony-serving/symphony/transport/mono"
)

// story has models of l(b) = b + 5 ms with the largest batch most.
func story(t *testing.T, opts Options, models, most, gpus int) *policytest.Story {
	var all []policy.Model
	for range models {
		all = append(all, policy.Model{Profile: policytest.Linear(t, 1, 5, most)})
	}
	return policytest.New(t, New(policy.Config{RequestsMax: 100}, opts), all, gpus)
}

// The head is dropped when waited + a*n + b reaches its limit; a model waits for
// more while n*(w + a + 1 ms) is within 0.95 of the mean wait.
func TestRejectAndCork(t *testing.T) {
	y := story(t, Options{}, 1, 16, 1)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(1, 0, 3, 13*ms)
	y.Submit(20, 0, 1, 20*ms)
	y.Submit(40, 0, 1, 20*ms)
	y.Submit(40.05, 0, 1, 20*ms)
	y.Advance(100)
	y.Golden("reject_and_cork", `
l(b) = b + 5 ms, one GPU. At 6.00 R2 has waited for 5 ms, and three take 8: its limit of
13 is reached, although alone it could run. Heads have then waited for 0 and 5 ms, 2.5 in
the mean: R5 waits for company until 20.00 + 0.95*2.5 - 2 = 20.375. R6 would until
40.00 + 0.95*1.79 - 2, which has passed, and runs at once; R7 is behind it.`)
}

// What waits counts whole, also beyond the largest batch.
func TestMoreThanABatch(t *testing.T) {
	y := story(t, Options{}, 1, 4, 1)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(1, 0, 8, 15*ms)
	y.Advance(100)
	y.Golden("more_than_a_batch", `
l(b) = b + 5 ms, largest batch 4, one GPU. Eight would take 13 ms: by 3.00 too many for what
is due at 16.00. One goes each millisecond, until four run at 6.00.`)
}

// The head that waits longest goes first, however urgent another one is.
func TestOldestFirst(t *testing.T) {
	y := story(t, Options{}, 2, 16, 1)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(1, 0, 1, 40*ms)
	y.Submit(2, 1, 1, 13*ms)
	y.Advance(100)
	y.Golden("oldest_first", `
Two models of l(b) = b + 5 ms, one GPU. R2 arrived before R3 and runs first, so that
R3 is too late.`)
}

// Options.Batches: whether a second GPU is of use to a model.
func TestBatchesAtATime(t *testing.T) {
	y := story(t, Options{Batches: 1}, 1, 16, 2)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(1, 0, 1, 20*ms)
	y.Submit(2, 0, 1, 20*ms)
	y.Advance(100)
	y.Golden("one_batch", `
l(b) = b + 5 ms, two GPUs, one batch at a time: R2 and R3 wait for R1.`)
	y = story(t, Options{}, 1, 16, 2)
	y.Submit(0, 0, 1, 20*ms)
	y.Submit(1, 0, 1, 20*ms)
	y.Submit(2, 0, 1, 20*ms)
	y.Advance(100)
	y.Golden("batch_per_gpu", `
The arrivals of one_batch.txt, as many batches as GPUs: R2 runs at once.`)
}

func TestWaits(t *testing.T) {
	var w waits
	if w.mean() != 0 {
		t.Errorf("mean %v before the first batch", w.mean())
	}
	for range kept {
		w.add(10 * ms)
	}
	for i := range 10 {
		w.add(mono.Dur(i) * 10 * ms)
	}
	if want := (40*10 + 450) * ms / kept; w.mean() != want {
		t.Errorf("mean %v of the last %d, want %v", w.mean(), kept, want)
	}
}

// It sheds early and keeps batches beyond the peak, but gathers none below it.
func TestEarlyRejection(t *testing.T) {
	resnet := policy.Model{Profile: policytest.Linear(t, 1.053, 5.072, 64), SLO: 25 * ms}
	for _, k := range []policytest.Load{
		{Rate: 3000, Low: 2900, High: 3050, Least: 2, Most: 5},
		{Rate: 8000, Low: 4800, High: 5400, Least: 9, Most: 14},
	} {
		k.Model, k.GPUs, k.Seconds = resnet, 8, 4
		k.Check(t, func(cfg policy.Config) policy.Scheduler { return New(cfg, Options{}) })
	}
}
