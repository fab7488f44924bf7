package coretest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// line is a model: l(b) = alpha*b + beta, and its SLO, in ms.
type line struct{ alpha, beta, slo float64 }

// workload is some equally popular models with Gamma arrivals.
type workload struct {
	name   string
	models []line
	gpus   int
	shape  float64   // 1: Poisson; less: bursts
	high   float64   // a rate above the peak
	ran    func(Run) // told of each run, if not nil
}

// result of a run: requests/s served in time, and the share that was not, of
// the model that fared worst.
type result struct{ served, bad float64 }

// play runs the workload at a rate for some simulated seconds; the first and
// the last half second are not counted.
func (w *workload) play(t testing.TB, policy batching.Policy, rate, seconds float64, seed uint64) result {
	t.Helper()
	c := New(w.gpus, shard.Config{RequestsMax: 1 << 17, BatchesMax: 1 << 12})
	c.Models = len(w.models)
	for id, m := range w.models {
		p, err := profile.Linear(mono.FromMillis(m.alpha), mono.FromMillis(m.beta), 256)
		if err != nil {
			t.Fatal(err)
		}
		c.Shard.AddModel(wire.ModelID(id), shard.ModelConfig{Config: batching.Config{Profile: p, SLO: mono.FromMillis(m.slo), Policy: policy, QueueMax: 1 << 15}})
	}
	c.setGPUs()
	from, to := mono.Time(mono.Second/2), mono.Time(mono.FromSeconds(seconds-0.5))
	good, all := make([]int, len(w.models)), make([]int, len(w.models))
	c.Obs.Complete = func(r Run) {
		if w.ran != nil {
			w.ran(r)
		}
		for _, q := range r.Requests {
			if q.Arrival >= from && q.Arrival < to && r.End <= q.Deadline {
				good[r.Model]++
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 1))
	gap := func() mono.Dur {
		return mono.FromSeconds(gamma(r, w.shape) * float64(len(w.models)) / rate)
	}
	var arrivals pq.Heap // model -> next arrival
	for id := range w.models {
		arrivals.Set(uint32(id), int64(gap()))
	}
	for {
		id, at := arrivals.Min()
		now := mono.Time(at)
		if now > mono.Time(mono.FromSeconds(seconds)) {
			break
		}
		arrivals.Set(id, int64(now.Add(gap())))
		c.AdvanceTo(now)
		if now >= from && now < to {
			all[id]++
		}
		c.Submit(wire.ModelID(id), batching.Request{Arrival: now, Deadline: now.Add(mono.FromMillis(w.models[id].slo))})
		c.Settle()
	}
	c.Advance(c.Now.Add(mono.Second))
	var res result
	for id := range good {
		res.served += float64(good[id]) / to.Sub(from).Seconds()
		if all[id] > 0 {
			res.bad = max(res.bad, 1-float64(good[id])/float64(all[id]))
		}
	}
	return res
}

// gamma draws from the Gamma distribution of mean 1 (Marsaglia and Tsang).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape == 1 {
		return r.ExpFloat64()
	}
	boost, k := math.Pow(r.Float64(), 1/shape), shape+1 // for shapes below 1
	d := k - 1.0/3
	for c := 1 / math.Sqrt(9*d); ; {
		x := r.NormFloat64()
		v := math.Pow(1+c*x, 3)
		if v > 0 && math.Log(r.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v * boost / shape
		}
	}
}

// peak is the goodput by bisection: the highest rate at which no model has
// more than 1 % bad.
func (w *workload) peak(t testing.TB, policy batching.Policy, seconds float64, seed uint64) float64 {
	t.Helper()
	low, high := 0.0, w.high
	for range 9 {
		mid := (low + high) / 2
		if w.play(t, policy, mid, seconds, seed).bad <= 0.01 {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func resnet50() workload {
	return workload{name: "ResNet50, 8 GPUs (Table 2)", models: []line{{1.053, 5.072, 25}}, gpus: 8, shape: 1, high: 7600}
}

// workloads: Table 2's ResNet50, calm and in bursts; a slow model on few GPUs;
// strongly and weakly batching models; many models on few and on many GPUs.
func workloads() []workload {
	dense, bert, resnet := line{1.061, 10.312, 30}, line{7.008, 0.159, 56}, line{2.05, 5.378, 100}
	mixed := []line{{0.57, 14.348, 33}, {1.271, 13.618, 37}, {0.893, 2.181, 20}, {3.464, 7.154, 42}, {6.121, 2.283, 53}, {7.353, 0.222, 59}}
	return []workload{
		resnet50(),
		{name: "ResNet50, 8 GPUs, Gamma 0.3", models: []line{{1.053, 5.072, 25}}, gpus: 8, shape: 0.3, high: 7600},
		{name: "ResNet50, SLO 100, Gamma 0.05", models: []line{{1.053, 5.072, 100}}, gpus: 8, shape: 0.05, high: 7600},
		{name: "slow model, 1 GPU", models: []line{{10, 50, 400}}, gpus: 1, shape: 1, high: 100},
		{name: "slow model, 2 GPUs", models: []line{{10, 50, 250}}, gpus: 2, shape: 1, high: 200},
		{name: "8 x DenseNet121, 8 GPUs", models: slices.Repeat([]line{dense}, 8), gpus: 8, shape: 1, high: 5000},
		{name: "8 x DenseNet121, 16 GPUs", models: slices.Repeat([]line{dense}, 8), gpus: 16, shape: 1, high: 10000},
		{name: "8 x DenseNet121, 32, Gamma 0.1", models: slices.Repeat([]line{dense}, 8), gpus: 32, shape: 0.1, high: 24000},
		{name: "BERT, 4 GPUs", models: []line{bert}, gpus: 4, shape: 1, high: 600},
		{name: "4 x BERT, 4 GPUs", models: slices.Repeat([]line{bert}, 4), gpus: 4, shape: 1, high: 600},
		{name: "10 x ResNet50 1080Ti, 8 GPUs", models: slices.Repeat([]line{resnet}, 10), gpus: 8, shape: 1, high: 3900},
		{name: "10 x ResNet50 1080Ti, Gamma 0.2", models: slices.Repeat([]line{resnet}, 10), gpus: 8, shape: 0.2, high: 3900},
		{name: "6 models of the zoo, 24 GPUs", models: mixed, gpus: 24, shape: 1, high: 12000},
	}
}

// A peak is where the worst model's bad rate crosses 1 %, by one seed a noisy
// figure: means over seeds count.
const (
	peakSeeds   = 3
	peakSeconds = 8
)

// TestFlatTop: offered 1.5 times the peak, the default policy still serves
// the peak (section 3.5, goodput stability), and below the peak it is not
// worse than the head rule.
func TestFlatTop(t *testing.T) {
	for _, w := range workloads() {
		t.Run(w.name, func(t *testing.T) {
			target, head, over, headOver := 0.0, 0.0, 0.0, 0.0
			for seed := range uint64(peakSeeds) {
				p := w.peak(t, batching.PolicyTarget, peakSeconds, seed)
				target += p / peakSeeds
				head += w.peak(t, batching.PolicyHead, peakSeconds, seed) / peakSeeds
				over += w.play(t, batching.PolicyTarget, 1.5*p, peakSeconds, seed).served / p / peakSeeds
				headOver += w.play(t, batching.PolicyHead, 1.5*p, peakSeconds, seed).served / p / peakSeeds
			}
			text := fmt.Sprintf("%-32s peak %6.0f (head %6.0f); at 1.5x served %.3f of the peak (head %.3f)", w.name, target, head, over, headOver)
			t.Log(text)
			if os.Getenv("SYMPHONY_PRINT") != "" {
				fmt.Println(text)
			}
			if over < 0.98 {
				t.Errorf("served %.3f of the peak of %.0f at 1.5x, want at least 0.98", over, target)
			}
			if target < 0.97*head {
				t.Errorf("peak %.0f, the head rule's is %.0f", target, head)
			}
		})
	}
}

// TestGoodputOfTable2: one ResNet50 on 8 GPUs, SLO 25 ms, Poisson. The paper
// measured 5,264 requests/s and gives 5,839 as the staggered bound.
func TestGoodputOfTable2(t *testing.T) {
	w := resnet50()
	sum := 0.0
	for seed := range uint64(3) {
		p := w.peak(t, batching.PolicyTarget, 20, seed+1)
		t.Logf("seed %d: %.0f requests/s", seed+1, p)
		sum += p
	}
	if mean := sum / 3; mean < 5264 {
		t.Errorf("goodput %.0f requests/s, the paper's is 5264", mean)
	}
}
