package workload

import (
	"errors"
	"math"
	"testing"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		popularity string
		want       []float64
	}{
		{"", []float64{0.25, 0.25, 0.25, 0.25}},
		{"equal", []float64{0.25, 0.25, 0.25, 0.25}},
		{"zipf:0", []float64{0.25, 0.25, 0.25, 0.25}},
		{"zipf:1", []float64{12. / 25, 6. / 25, 4. / 25, 3. / 25}},
		{"zipf:2", []float64{144. / 205, 36. / 205, 16. / 205, 9. / 205}},
	} {
		got, err := Shares(c.popularity, 4)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if math.Abs(got[i]-want) > 1e-15 {
				t.Errorf("%q: %v, want %v", c.popularity, got, c.want)
				break
			}
		}
	}
	for _, bad := range []string{"zipf", "zipf:", "zipf:x", "zipf:-1", "zipf:11", "zipf:NaN", "Equal"} {
		if _, err := Shares(bad, 4); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := Shares("equal", 0); !errors.Is(err, ErrInvalid) {
		t.Error("no models are accepted")
	}
}

func TestPicker(t *testing.T) {
	const n = 1_000_000
	r := newRandom(4, 0)
	for _, weights := range [][]float64{{1}, {0, 1}, {1, 0, 0}, {1, 2, 3, 4}, {5e-324, 1}, {0.1, 0.7, 0, 0.1, 0.1}, {1e9, 1}} {
		p, counts, sum := newPicker(weights), make([]float64, len(weights)), 0.0
		for range n {
			counts[p.pick(&r)]++
		}
		for _, w := range weights {
			sum += w
		}
		for i, w := range weights {
			want := n * w / sum
			if w == 0 && counts[i] > 0 || math.Abs(counts[i]-want) > 5*math.Sqrt(want)+1 {
				t.Errorf("weights %v: %d was picked %g times, want about %g", weights, i, counts[i], want)
			}
		}
	}
}
