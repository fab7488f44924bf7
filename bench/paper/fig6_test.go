package paper

import "testing"

// Section 3.4.1: alpha 1 ms, SLO 2*l(8).
func TestFig6aWorkload(t *testing.T) {
	w := synthetic(15)
	p, err := w.Models[0].profileOf()
	if err != nil {
		t.Fatal(err)
	}
	if got := 2 * p.Latency(8).Millis(); got != w.Models[0].SLO || got != 46 {
		t.Errorf("SLO %g ms, 2*l(8) is %g", w.Models[0].SLO, got)
	}
	if parts, err := w.parts(); err != nil || len(parts) != 10 {
		t.Errorf("%d models, %v", len(parts), err)
	}
}

func TestHighest(t *testing.T) {
	if got := highest([]float64{-3, -1}, []float64{-2}); got != -1 {
		t.Errorf("%g", got)
	}
}
