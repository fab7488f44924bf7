package workload

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// One more of the others each gap, evenly asked; the steady one from the beginning. With a share, so much
// less of the others, and as much of the steady one.
func TestGrowing(t *testing.T) {
	const seed = 5
	begin := mono.Time(10 * mono.Second)
	for _, share := range []float64{1, 0.25} {
		cfg := GrowingConfig{Steady: 200, Rate: 1000, Others: 30, Begin: begin, Gap: mono.Second, Seed: seed}
		if share < 1 {
			cfg.Share = func(active int) float64 {
				if active < 1 || active > cfg.Others {
					t.Fatalf("share of %d active models", active)
				}
				return share
			}
		}
		g, err := NewGrowing(cfg)
		if err != nil {
			t.Fatal(err)
		}
		steady, others, high, last := 0, 0, 0, mono.Time(0)
		for {
			at, m, ok := g.Next()
			if at < last || !ok {
				t.Fatalf("%v after %v, %v", at, last, ok)
			}
			if last = at; at >= begin.Add(40*mono.Second) {
				break
			}
			if m == 0 {
				steady++
				continue
			}
			if at < begin || m > g.Active(at) || g.Active(at) > 30 {
				t.Fatalf("at %v a request of model %d, of %d", at, m, g.Active(at))
			}
			if others++; m > g.Active(at)/2 {
				high++
			}
		}
		want := 40_000 * share
		if math.Abs(float64(steady)-10_000) > 500 || math.Abs(float64(others)-want) > 5*math.Sqrt(want) || math.Abs(float64(high)/float64(others)-0.5) > 0.05 {
			t.Errorf("share %g: %d requests of the steady model in 50 s, %d of the others in 40 s, %d of their newer half", share, steady, others, high)
		}
	}
}

func TestGrowingRefused(t *testing.T) {
	good := GrowingConfig{Steady: 1, Rate: 1, Others: 1, Gap: 1}
	for name, spoil := range map[string]func(*GrowingConfig){
		"none":     func(c *GrowingConfig) { c.Others = 0 },
		"no gap":   func(c *GrowingConfig) { c.Gap = 0 },
		"early":    func(c *GrowingConfig) { c.Begin = -1 },
		"negative": func(c *GrowingConfig) { c.Rate = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := NewGrowing(c); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
