package subclusters

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/zoo"
	"github.com/symphony-serving/symphony/scheduler/control/partition"
)

// Draws are of their seed, with the mean that was asked for.
func TestDraw(t *testing.T) {
	a, b, c := Draw(4000, 1, 10), Draw(4000, 1, 10), Draw(4000, 2, 10)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Error("a draw is not that of its seed")
	}
	sum := 0.0
	for i := range a {
		if sum += a[i].Rate; a[i].Rate < 0 || a[i].Bytes.Static == 0 || a[i].Bytes.Dynamic == 0 {
			t.Fatalf("%+v", a[i])
		}
	}
	if mean := sum / 4000; math.Abs(mean-10) > 0.5 {
		t.Errorf("mean rate %g, want 10", mean)
	}
}

func TestWorkloadsAreProblems(t *testing.T) {
	for _, w := range Workloads() {
		models, err := w.Draw(1)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Problem(models, 1)
		if err != nil {
			t.Fatal(err)
		}
		p.MemoryMax = w.Memory
		need := p.Loads(make([]int, len(models)))[0].Need
		l, err := partition.Fewest(p, 1, 300_000)
		if err != nil || l < 4 || l > 12 || need < 30 || need > 200 {
			t.Errorf("%s: %d sub-clusters, need %.1f, %v", w.Name, l, need, err)
		}
	}
}

// small is a sub-cluster that is simulated fast.
func small(rate float64) []Model {
	kinds := zoo.A100()
	i := slices.IndexFunc(kinds, func(m zoo.Model) bool { return m.Name == "ResNet50" })
	return []Model{{Name: "a", Kind: kinds[i], Rate: rate}, {Name: "b", Kind: kinds[i], Rate: rate / 2}}
}

// The least passes, and one less does not; more requests need more; GPUsFor is near.
func TestLeast(t *testing.T) {
	r := Run{Seed: 1, Requests: 20_000}
	last := 0
	for _, rate := range []float64{20, 1000, 4000} {
		models := small(rate)
		n, err := r.Least(models)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.config(models)
		if err != nil {
			t.Fatal(err)
		}
		for gpus, want := range map[int]bool{n: true, n - 1: false} {
			if gpus == 0 {
				continue
			}
			c.GPUs = gpus
			if ok, err := r.passes(c); err != nil || ok != want {
				t.Errorf("rate %g: %d is the least, on %d: %v, %v", rate, n, gpus, ok, err)
			}
		}
		load, _ := LoadOf(models)
		if wants := partition.GPUsFor(load.Need, load.Rate, load.Bursts); n < last || math.Abs(float64(n)-wants) > 1.5 {
			t.Errorf("rate %g: %d GPUs after %d; the formula says %.2f", rate, n, last, wants)
		}
		last = n
	}
	if n, err := r.Least([]Model{{Name: "idle", Kind: zoo.A100()[0]}}); n != 1 || err != nil {
		t.Errorf("models that nobody asks: %d, %v", n, err)
	}
	r.Stop = func() bool { return true }
	if _, err := r.Least(small(1000)); !errors.Is(err, sim.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
}

// What was put in comes out.
func TestFitTo(t *testing.T) {
	var samples []Sample
	for i := range 200 {
		need := 1 + float64(i%17)
		l := partition.Load{Need: need, Rate: 100, Bursts: partition.Bursts{Hold: need * float64(1+i%5), Haste: 100 * float64(1+i%3), Loose: need / float64(1+i%7)}}
		beyond := 0.25*float64(1+i%5)*float64(1+i%3) + 2/float64(1+i%7) + 1
		l.Need = math.Ceil(need+beyond) - beyond - 0.5 // so that the whole number is exact
		l.Hold, l.Loose = l.Hold/need*l.Need, l.Loose/need*l.Need
		samples = append(samples, Sample{Load: l, GPUs: int(math.Ceil(need + beyond))})
	}
	f := FitTo(samples)
	if math.Abs(f.Hold-0.25) > 1e-9 || math.Abs(f.Loose-2) > 1e-9 || math.Abs(f.Base-1) > 1e-9 || f.Residual > 1e-9 {
		t.Errorf("%+v", f)
	}
	if f := FitTo(nil); f.Hold != 0 || f.Samples != 0 {
		t.Errorf("%+v", f)
	}
}

// Draws to fit by have the needs that the documents say.
func TestFitDraw(t *testing.T) {
	for seed := range uint64(50) {
		m, err := FitDraw(seed)
		if err != nil {
			t.Fatal(err)
		}
		l, err := LoadOf(m)
		if err != nil || len(m) > 100 || l.Need < 0.24 || l.Need > 31 {
			t.Errorf("seed %d: %d models, need %g, %v", seed, len(m), l.Need, err)
		}
	}
}
