package paper

import (
	"math"
	"testing"
)

// Figure 10's caption: strong is beta/alpha > 2, weak < 2.
func TestFig9Mixes(t *testing.T) {
	want := map[string]int{"1080Ti mixed": 35, "1080Ti strong": 23, "1080Ti weak": 12, "A100 mixed": 37, "A100 strong": 29, "A100 weak": 8}
	for _, m := range mixes9() {
		if n := want[m.zoo+" "+m.name]; len(m.models) != n {
			t.Errorf("%s %s: %d models, want %d", m.zoo, m.name, len(m.models), n)
		}
	}
}

func TestStaggeredMix(t *testing.T) {
	// One model: section 3.3's bound, 16 in 21.92 ms on 8 GPUs (Table 2).
	one := resnetLike(25, 1)
	got, err := staggeredMix([]Model{one}, 8)
	if err != nil || math.Abs(got-5839) > 1 {
		t.Fatalf("ResNet50 on 8 GPUs: %g r/s, %v; want 5,839", got, err)
	}
	// Half of the requests take no time to speak of: twice the rate.
	got, err = staggeredMix([]Model{one, {Name: "light", Alpha: 1e-5, Beta: 1e-5, SLO: 25}}, 8)
	if err != nil || math.Abs(got-2*5839) > 10 {
		t.Fatalf("with a light model: %g r/s, %v; want 11,678", got, err)
	}
	// The fluid bound knows more and is never above, but for its fractional batches.
	for _, m := range mixes9() {
		w := Workload{Models: m.models, GPUs: 64}
		fluid, err := w.Fluid()
		if err != nil {
			t.Fatal(err)
		}
		staggered, err := staggeredMix(m.models, 64)
		if err != nil || fluid > staggered*1.02 {
			t.Errorf("%s %s: fluid %g, staggered %g, %v", m.zoo, m.name, fluid, staggered, err)
		}
	}
}
