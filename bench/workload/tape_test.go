package workload

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// TestTape: mixes of one tape are those without, to the bit, in whichever order
// rates and lengths come.
func TestTape(t *testing.T) {
	var tape Tape
	streams := func(rate float64) []Stream {
		return []Stream{
			{Process: Gamma, Shape: 0.1, Rate: rate}, {Process: Gamma, Shape: 1, Rate: 2 * rate}, {Process: Uniform, Rate: rate},
			{Process: Constant, Rate: rate}, {Process: Poisson, Rate: rate}, {Process: Poisson, Rate: 3 * rate}, {Process: Gamma, Shape: 4, Rate: 0},
		}
	}
	for _, run := range []struct {
		rate float64
		seed uint64
		n    int
	}{{100, 1, 3000}, {250, 1, 5000}, {90, 1, 200}, {100, 2, 1000}, {100, 1, 9000}} {
		plain, err := NewMix(streams(run.rate), run.seed)
		if err != nil {
			t.Fatal(err)
		}
		taped, err := tape.NewMix(streams(run.rate), run.seed)
		if err != nil {
			t.Fatal(err)
		}
		last := mono.Time(0)
		for i := range run.n {
			at, model, ok := plain.Next()
			at2, model2, ok2 := taped.Next()
			if at != at2 || model != model2 || ok != ok2 || at < last {
				t.Fatalf("%+v, arrival %d: model %d at %v, on tape model %d at %v", run, i, model, at, model2, at2)
			}
			last = at
		}
	}
	// The two Poisson streams are one flow, and have no track.
	if n := len(tape.tracks); n != 4*2 {
		t.Errorf("%d tracks of two seeds, want 4 each", n)
	}
}
