package histogram

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Every span lies in the bucket whose bounds hold it, and no bucket is wider
// than an eighth of its lower bound.
func TestBuckets(t *testing.T) {
	from := mono.Dur(0)
	for i := range buckets {
		to := upper(i)
		if from >= parts && to-from > from/parts {
			t.Fatalf("bucket %d from %d to %d is too wide", i, from, to)
		}
		for _, d := range []mono.Dur{from, (from + to) / 2, to - 1} {
			if got := bucketOf(d); got != i {
				t.Fatalf("%d lies in bucket %d, want %d (%d to %d)", d, got, i, from, to)
			}
		}
		from = to
	}
	if bucketOf(1<<62) != buckets-1 {
		t.Fatal("a very long span has no bucket")
	}
}

// Quantiles against the sorted spans: never less, at most an eighth more.
func TestQuantiles(t *testing.T) {
	var h Histogram
	r := rand.New(rand.NewPCG(1, 2))
	var all []mono.Dur
	for range 100_000 {
		d := mono.Dur(r.ExpFloat64() * 50_000)
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	c := h.Snapshot()
	for _, q := range []float64{0, 0.5, 0.99, 0.9999, 1} {
		want := all[min(len(all)-1, int(float64(len(all))*q))]
		if got := c.Quantile(q); got < want || got > want+want/parts {
			t.Errorf("quantile %v is %d, want %d or an eighth more", q, got, want)
		}
	}
	if c.Count != 100_000 || c.Mean() < 49_000 || c.Mean() > 51_000 {
		t.Errorf("%d spans of mean %v", c.Count, c.Mean())
	}
}

func TestPlusMinusCumulative(t *testing.T) {
	var h Histogram
	h.Add(10)
	h.Add(-3)
	first := h.Snapshot()
	h.Add(1000)
	h.Add(5000)
	c := h.Snapshot()
	later := c.Minus(first)
	if later.Count != 2 || later.Sum != 6000 || first.Plus(later) != c {
		t.Fatalf("%d spans of %v since then", later.Count, later.Sum)
	}
	if got := c.Cumulative([]mono.Dur{5, 2000, 1 << 40}); !slices.Equal(got, []uint64{1, 3, 4}) {
		t.Fatalf("below the bounds: %v, want 1, 3, 4", got)
	}
	n := uint64(0)
	c.Each(func(from, to mono.Dur, count uint64) {
		if from >= to {
			t.Errorf("bucket from %d to %d", from, to)
		}
		n += count
	})
	if n != c.Count {
		t.Errorf("buckets hold %d, want %d", n, c.Count)
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	d := mono.Dur(0)
	for b.Loop() {
		h.Add(d)
		d = (d + 977) & 0xffff
	}
}
