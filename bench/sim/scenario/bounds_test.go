package scenario

import (
	"strings"
	"testing"
)

// TestBounds: there are bounds, or one reason why not.
func TestBounds(t *testing.T) {
	trace := file(t, "t.csv", "0.1\n0.2\n3\n")
	for _, c := range []struct {
		name   string
		change func(*Scenario)
		want   string
	}{
		{"Poisson", func(*Scenario) {}, ""},
		{"regular", func(s *Scenario) { s.Arrivals = "gamma:2" }, ""},
		{"bursty", func(s *Scenario) { s.Arrivals = "gamma:0.3" }, "bursty (gamma:0.3)"},
		{"a rate profile", func(s *Scenario) { s.RateProfile = "step:500ms=2" }, "--rate-profile"},
		{"a GPU that goes", func(s *Scenario) { s.Events = []string{"leave:0@800ms"} }, "--gpu-event"},
		{"a trace", func(s *Scenario) { s.Rate, s.Trace = 0, &Trace{File: trace} }, "trace"},
	} {
		s := small()
		c.change(&s)
		p, err := s.Plan()
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		b := p.bounds()
		if c.want == "" && (b.Missing != "" || b.Fluid <= 0 || b.Staggered <= 0) {
			t.Errorf("%s: %+v, want bounds", c.name, b)
		}
		if c.want != "" && (!strings.Contains(b.Missing, c.want) || b.Fluid != 0 || b.Staggered != 0) {
			t.Errorf("%s: %+v, want the reason %q", c.name, b, c.want)
		}
	}
}
