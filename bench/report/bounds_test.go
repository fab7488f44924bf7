package report

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

func line(t *testing.T, alpha, beta float64) *profile.Profile {
	t.Helper()
	p, err := profile.Linear(mono.FromMillis(alpha), mono.FromMillis(beta), 256)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestTable2: the analytical columns of the paper's Table 2.
func TestTable2(t *testing.T) {
	for _, c := range []struct {
		alpha, beta, slo    float64
		alone, alongside    int
		tptAlone, tptStages float64
	}{
		{1.053, 5.072, 25, 7, 16, 4501, 5839},
		{5.090, 18.368, 70, 3, 8, 713, 1083},
	} {
		p, slo := line(t, c.alpha, c.beta), mono.FromMillis(c.slo)
		if b, rate := Uncoordinated(p, slo, 8); b != c.alone || math.Round(rate) != c.tptAlone {
			t.Errorf("without coordination: batch %d, %.1f r/s; want %d, %g", b, rate, c.alone, c.tptAlone)
		}
		if b, rate := Staggered(p, slo, 8); b != c.alongside || math.Round(rate) != c.tptStages {
			t.Errorf("staggered: batch %d, %.1f r/s; want %d, %g", b, rate, c.alongside, c.tptStages)
		}
	}
	if b, rate := Staggered(line(t, 1, 30), mono.FromMillis(20), 8); b != 0 || rate != 0 {
		t.Errorf("an SLO that nothing meets: batch %d, %g r/s", b, rate)
	}
}

// TestFluid compares with the closed form of a line,
// b = (1 + lambda*(SLO - beta)) / (1 + lambda*alpha): one model keeps N GPUs
// busy when lambda*(alpha*b + beta) = N*b.
func TestFluid(t *testing.T) {
	const alpha, beta, slo, gpus = 0.001053, 0.005072, 0.025, 8
	rate := Fluid([]Load{{line(t, 1.053, 5.072), mono.FromMillis(25), 1}}, gpus)
	b := (1 + rate*(slo-beta)) / (1 + rate*alpha)
	if busy := rate * (alpha + beta/b); math.Abs(busy-gpus) > 1e-6 {
		t.Errorf("%g r/s in batches of %g need %g GPUs, want %d", rate, b, busy, gpus)
	}
	// An SLO of l(1) leaves batches of one: N/l(1).
	if got := Fluid([]Load{{line(t, 1, 4), mono.FromMillis(5), 1}}, 10); math.Abs(got-2000) > 1e-3 {
		t.Errorf("batches of one on 10 GPUs, 5 ms each: %g r/s, want 2000", got)
	}
	// A second model that is never asked for changes nothing.
	two := []Load{{line(t, 1.053, 5.072), mono.FromMillis(25), 1}, {line(t, 9, 9), mono.FromMillis(50), 0}}
	if got := Fluid(two, gpus); math.Abs(got-rate) > 1e-6 {
		t.Errorf("%g r/s with an idle model beside it, %g without", got, rate)
	}
}
