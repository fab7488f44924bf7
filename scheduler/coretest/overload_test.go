package coretest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// workload is some models, equally popular, with Poisson arrivals.
type workload struct {
	name        string
	alpha, beta float64 // ms
	slo         float64 // ms
	models      int
	gpus        int
	policy      batching.Policy
	maxBatch    int
}

// result of a run.
type result struct {
	offered, served, bad float64 // requests/s, requests/s, share
}

// play runs the workload at a rate for some simulated seconds; the first and
// the last half second are not counted.
func play(t testing.TB, w workload, rate, seconds float64, seed uint64) result {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(w.alpha), mono.FromMillis(w.beta), w.maxBatch)
	if err != nil {
		t.Fatal(err)
	}
	c := New(w.gpus, shard.Config{RequestsMax: 1 << 17, BatchesMax: 1 << 12})
	slo := mono.FromMillis(w.slo)
	for m := range w.models {
		c.Shard.AddModel(wire.ModelID(m), shard.ModelConfig{Config: batching.Config{Profile: p, SLO: slo, Policy: w.policy, QueueMax: 1 << 15}})
	}
	c.Shard.SetGPUs(0, w.gpus, max(1, w.gpus/w.models), &c.out)
	from, to := mono.Time(mono.Second/2), mono.Time(mono.FromSeconds(seconds-0.5))
	var good, all int
	c.Obs.Complete = func(r Run) {
		for _, q := range r.Requests {
			if q.Arrival >= from && q.Arrival < to && r.End <= q.Deadline {
				good++
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	for at := mono.Time(0); at < mono.Time(mono.FromSeconds(seconds)); {
		at = at.Add(mono.FromSeconds(r.ExpFloat64() / rate))
		c.AdvanceTo(at)
		if at >= from && at < to {
			all++
		}
		c.Submit(wire.ModelID(r.IntN(w.models)), batching.Request{Arrival: at, Deadline: at.Add(slo)})
		c.Settle()
	}
	c.Advance(c.Now.Add(2 * slo))
	span := to.Sub(from).Seconds()
	return result{float64(all) / span, float64(good) / span, 1 - float64(good)/float64(all)}
}

// peak is the goodput by bisection: the highest rate with at most 1 % bad.
func peak(t testing.TB, w workload, high, seconds float64) float64 {
	t.Helper()
	low := 0.0
	for range 9 {
		mid := (low + high) / 2
		if play(t, w, mid, seconds, 1).bad <= 0.01 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// served workloads: Table 2's ResNet50, a slow model on few GPUs, a strongly
// and a weakly batching one, many models on few GPUs.
func workloads() []workload {
	return []workload{
		{"ResNet50, 8 GPUs (Table 2)", 1.053, 5.072, 25, 1, 8, batching.PolicyTarget, 64},
		{"slow model, 1 GPU", 10, 50, 400, 1, 1, batching.PolicyTarget, 64},
		{"slow model, 2 GPUs", 10, 50, 250, 1, 2, batching.PolicyTarget, 64},
		{"8 x DenseNet121, 8 GPUs", 1.061, 10.312, 30, 8, 8, batching.PolicyTarget, 64},
		{"8 x DenseNet121, 16 GPUs", 1.061, 10.312, 30, 8, 16, batching.PolicyTarget, 64},
		{"BERT, 4 GPUs", 7.008, 0.159, 56, 1, 4, batching.PolicyTarget, 64},
		{"4 x BERT, 4 GPUs", 7.008, 0.159, 56, 4, 4, batching.PolicyTarget, 64},
		{"10 x ResNet50 1080Ti, 8 GPUs", 2.05, 5.378, 100, 10, 8, batching.PolicyTarget, 64},
	}
}

// TestFlatTop: offered 1.5 times the peak, the default policy still serves at
// least 0.95 of the peak (section 3.5, goodput stability).
func TestFlatTop(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			bound := float64(w.gpus) * float64(w.maxBatch) / (w.alpha*float64(w.maxBatch) + w.beta) * 1000
			p := peak(t, w, bound, 6)
			over := play(t, w, 1.5*p, 6, 2)
			h := w
			h.policy = batching.PolicyHead
			line := fmt.Sprintf("%-30s peak %6.0f (head %6.0f)  at 1.5x: served %6.0f = %.3f of the peak (head %.3f)", w.name, p,
				peak(t, h, bound, 6), over.served, over.served/p, play(t, h, 1.5*p, 6, 2).served/p)
			t.Log(line)
			if os.Getenv("SYMPHONY_PRINT") != "" {
				fmt.Println(line)
			}
			if over.served < 0.95*p {
				t.Errorf("served %.0f of a peak of %.0f at 1.5x", over.served, p)
			}
		})
	}
}
