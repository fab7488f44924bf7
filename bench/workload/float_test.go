package workload

import (
	"math"
	"testing"
)

func relative(got, want float64) float64 {
	return math.Abs(got-want) / math.Max(math.Abs(want), 1e-2)
}

func TestLnAndExpAgainstPackageMath(t *testing.T) {
	r := newRandom(1, 0)
	worstLn, worstExp := 0.0, 0.0
	for range 1_000_000 {
		x := math.Ldexp(0.5+r.uniform()/2, int(r.bits()%600)-300)
		worstLn = math.Max(worstLn, relative(ln(x), math.Log(x)))
		u := r.positive()
		worstLn = math.Max(worstLn, relative(ln(u), math.Log(u)))
		y := 1400*r.uniform() - 700
		worstExp = math.Max(worstExp, math.Abs(exp(y)/math.Exp(y)-1))
	}
	if worstLn > 1e-15 || worstExp > 1e-15 {
		t.Errorf("ln is off by %g, exp by %g, at most 1e-15", worstLn, worstExp)
	}
	for x, want := range map[float64]float64{1: 0, 2: math.Ln2, math.E: 1, 0x1p-53: -53 * math.Ln2} {
		if got := ln(x); math.Abs(got-want) > 1e-15*math.Max(1, math.Abs(want)) {
			t.Errorf("ln(%g) = %g, want %g", x, got, want)
		}
	}
	if exp(0) != 1 || exp(-709) != 0 || exp(math.Inf(-1)) != 0 || exp(-708) == 0 {
		t.Errorf("exp at 0, -709, -Inf, -708: %g %g %g %g", exp(0), exp(-709), exp(math.Inf(-1)), exp(-708))
	}
	// Next to 1 the logarithm keeps its digits.
	for _, d := range []float64{0x1p-53, 0x1p-40, 0x1p-20} {
		if got, want := ln(1-d), math.Log1p(-d); math.Abs(got/want-1) > 1e-15 {
			t.Errorf("ln(1-%g) = %g, want %g", d, got, want)
		}
	}
}
