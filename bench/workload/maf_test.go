package workload

import (
	"errors"
	"math"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func newMAF(t testing.TB, cfg MAFConfig) *MAF {
	t.Helper()
	m, err := NewMAF(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The functions' rates span eight decades, and a few functions make most requests.
func TestMAFRates(t *testing.T) {
	all := rates(mafFunctions, mafRate)
	sum, rare, top := 0.0, 0, 0.0
	for i, r := range all {
		if i > 0 && r < all[i-1] {
			t.Fatalf("rate %d is %g, after %g", i, r, all[i-1])
		}
		sum += r
		if r < 1.0/60 {
			rare++
		}
		if i >= len(all)*99/100 {
			top += r
		}
	}
	if math.Abs(sum-mafRate) > 1e-6*mafRate {
		t.Errorf("%g requests/s in all, want %g", sum, mafRate)
	}
	if decades := math.Log10(all[len(all)-1] / all[0]); decades < 7.9 || decades > 8.1 {
		t.Errorf("%g decades between the rarest and the most popular, want 8", decades)
	}
	if share := float64(rare) / float64(len(all)); share < 0.6 || share > 0.9 {
		t.Errorf("%g of the functions are asked less than once a minute, want most of them", share)
	}
	if top < 0.6*sum {
		t.Errorf("the most popular hundredth makes %g of the requests, want most", top/sum)
	}
}

// lru is memory of so many pages in which the model used last stays longest.
type lru struct {
	pages, free    int
	need           []int
	next, previous []int // by model, and one past the models: the list's ends
	in             []bool
}

func newLRU(pages int, need []int) *lru {
	n := len(need)
	c := &lru{pages: pages, free: pages, need: need, next: make([]int, n+1), previous: make([]int, n+1), in: make([]bool, n)}
	c.next[n], c.previous[n] = n, n
	return c
}

// use tells whether the model was there; it is afterwards.
func (c *lru) use(m int) bool {
	end := len(c.need)
	was := c.in[m]
	if was {
		c.next[c.previous[m]], c.previous[c.next[m]] = c.next[m], c.previous[m]
	} else {
		for c.free < c.need[m] {
			out := c.next[end]
			c.next[end], c.previous[c.next[out]] = c.next[out], end
			c.in[out], c.free = false, c.free+c.need[out]
		}
		c.in[m], c.free = true, c.free-c.need[m]
	}
	last := c.previous[end]
	c.next[last], c.previous[m], c.next[m], c.previous[end] = m, last, end, m
	return was
}

// What Clockwork tells of the trace that it replayed (section 6.5), within 15 %: 4,860
// requests/s, and 54 % of the 4,026 models cold each minute, in 12 x 1,376 pages with the
// least recently used model leaving first.
func TestMAFIsCalibrated(t *testing.T) {
	const models, minutes, settling = 4026, 70, 10
	need := make([]int, models)
	for m := range need { // Table 1: 2 to 22 pages, 7.9 on average
		need[m] = []int{2, 3, 3, 4, 6, 6, 7, 7, 7, 8, 11, 11, 12, 15, 16}[m%15]
	}
	cache := newLRU(12*1376, need)
	source := newMAF(t, MAFConfig{Models: models, Seed: 1})
	lastCold := make([]int, models)
	requests, cold, coldModels, hour, quarter, other := 0, 0, 0, 0, 0, 0
	last := mono.Time(0)
	for {
		at, m, _ := source.Next()
		if at < last {
			t.Fatalf("%v after %v", at, last)
		}
		last = at
		minute := int(at.Sub(0).Seconds() / 60)
		if minute >= minutes {
			break
		}
		was := cache.use(m)
		if minute < settling {
			continue
		}
		switch {
		case minute == 60:
			hour++
		case minute%15 == 0:
			quarter++
		default:
			other++
		}
		requests++
		if !was {
			cold++
			if lastCold[m] != minute {
				lastCold[m] = minute
				coldModels++
			}
		}
	}
	rate := float64(requests) / ((minutes - settling) * 60)
	share := float64(coldModels) / (minutes - settling) / models
	t.Logf("%.0f requests/s, %.3f of the models cold each minute, %.4f of the requests; a minute of an hour %d, of a quarter %d, others %d",
		rate, share, float64(cold)/float64(requests), hour, quarter/3, other/56)
	if math.Abs(rate/mafRate-1) > 0.15 {
		t.Errorf("%g requests/s, want %g", rate, mafRate)
	}
	if math.Abs(share/0.54-1) > 0.15 {
		t.Errorf("%g of the models are cold each minute, want 0.54", share)
	}
	// Spikes that cost no requests (section 6.5) are not high.
	if hour < other/56*105/100 || hour > other/56*112/100 || quarter/3 < other/56*101/100 || quarter/3 > other/56*104/100 {
		t.Errorf("spikes are too low or too high: %d requests in the minute of an hour, %d in that of a quarter, %d in others", hour, quarter/3, other/56)
	}
}

// One seed, one sequence; another seed, another.
func TestMAFRepeats(t *testing.T) {
	a, b, c := newMAF(t, MAFConfig{Models: 50, Seed: 7}), newMAF(t, MAFConfig{Models: 50, Seed: 7}), newMAF(t, MAFConfig{Models: 50, Seed: 8})
	same := 0
	for i := range 100_000 {
		at, m, _ := a.Next()
		if x, y, _ := b.Next(); x != at || y != m {
			t.Fatalf("arrival %d: %v of model %d and %v of model %d", i, at, m, x, y)
		}
		if x, _, _ := c.Next(); x == at {
			same++
		}
	}
	if same > 100 {
		t.Errorf("%d of 100,000 arrivals of two seeds are at the same instants", same)
	}
}

// Sorted: the first models have the popular functions. Striped: no model has.
func TestMAFMapping(t *testing.T) {
	share := func(mapping Mapping) float64 {
		source, first := newMAF(t, MAFConfig{Models: 100, Mapping: mapping, Seed: 3}), 0
		for range 100_000 {
			if _, m, _ := source.Next(); m < 10 {
				first++
			}
		}
		return float64(first) / 100_000
	}
	if s := share(Sorted); s < 0.8 {
		t.Errorf("sorted: the first tenth of the models has %g of the requests", s)
	}
	if s := share(Striped); s > 0.4 {
		t.Errorf("striped: the first tenth of the models has %g of the requests", s)
	}
}

func TestMAFRefused(t *testing.T) {
	for _, cfg := range []MAFConfig{{}, {Models: 1, Rate: -1}, {Models: 1, Mapping: "random"}, {Models: 1, Functions: -2}} {
		if m, err := NewMAF(cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v, %v", cfg, m, err)
		}
	}
}

func BenchmarkMAF(b *testing.B) {
	m := newMAF(b, MAFConfig{Models: 4026, Seed: 1})
	b.ReportAllocs()
	for b.Loop() {
		m.Next()
	}
}
