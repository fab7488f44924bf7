package workload

import (
	"errors"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func collect(t *testing.T, cfg Config, n int) (mean, deviation float64, counts []int) {
	t.Helper()
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	counts = make([]int, cfg.Models)
	var sum, squares float64
	for range n {
		gap, model := g.Next()
		s := gap.Seconds()
		sum, squares = sum+s, squares+s*s
		counts[model]++
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(squares/float64(n) - mean*mean), counts
}

// A Poisson process has exponential gaps: mean and deviation are 1/rate.
func TestGaps(t *testing.T) {
	mean, deviation, counts := collect(t, Config{Process: Poisson, Rate: 1000, Models: 4, Seed: 1}, 100000)
	if math.Abs(mean-0.001) > 2e-5 || math.Abs(deviation-0.001) > 3e-5 {
		t.Errorf("Poisson: mean %g, deviation %g, want 0.001 both", mean, deviation)
	}
	for m, n := range counts {
		if n < 24000 || n > 26000 {
			t.Errorf("model %d got %d of 100000, want a quarter", m, n)
		}
	}
	mean, deviation, _ = collect(t, Config{Process: Constant, Rate: 1000, Models: 1}, 1000)
	if math.Abs(mean-0.001) > 1e-9 || deviation > 1e-9 {
		t.Errorf("constant: mean %g, deviation %g", mean, deviation)
	}
}

func TestZipf(t *testing.T) {
	_, _, counts := collect(t, Config{Process: Constant, Rate: 1, Models: 3, Popularity: "zipf:1", Seed: 2}, 110000)
	for m, want := range []float64{60000, 30000, 20000} {
		if math.Abs(float64(counts[m])-want) > 1000 {
			t.Errorf("model %d got %d, want about %.0f", m, counts[m], want)
		}
	}
}

func TestSameSeedSameArrivals(t *testing.T) {
	cfg := Config{Process: Poisson, Rate: 77, Models: 5, Popularity: "zipf:0.9", Seed: 3}
	a, _ := New(cfg)
	b, _ := New(cfg)
	for range 1000 {
		gapA, modelA := a.Next()
		gapB, modelB := b.Next()
		if gapA != gapB || modelA != modelB {
			t.Fatal("the same seed gave other arrivals")
		}
	}
	if gap, _ := a.Next(); gap < 0 || gap == mono.Dur(math.MaxInt64) {
		t.Fatal(gap)
	}
}

func TestRefused(t *testing.T) {
	ok := Config{Process: Poisson, Rate: 1, Models: 1}
	for name, change := range map[string]func(*Config){
		"process": func(c *Config) { c.Process = "bursty" }, "rate": func(c *Config) { c.Rate = 0 },
		"NaN": func(c *Config) { c.Rate = math.NaN() }, "models": func(c *Config) { c.Models = 0 },
		"popularity": func(c *Config) { c.Popularity = "zipf:x" }, "negative": func(c *Config) { c.Popularity = "zipf:-1" },
	} {
		c := ok
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
