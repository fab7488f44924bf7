package paper

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIntervals(t *testing.T) {
	// Three values 99, 100, 101: deviation 1, t = 4.303 with two degrees of
	// freedom, half = 4.303/sqrt(3).
	i := intervalOf([]float64{99, 100, 101})
	if i.mean != 100 || math.Abs(i.half-2.484) > 0.001 {
		t.Errorf("%+v, want 100 +- 2.484", i)
	}
	if one := intervalOf([]float64{200}); one != (interval{200, 1, 1}) {
		t.Errorf("one seed: %+v", one)
	}
	for _, c := range []struct {
		other  interval
		factor float64
		want   Verdict
	}{
		{interval{mean: 97, half: 0.6}, 1, Draw}, // 97.6 is within 97.5 to 102.5
		{interval{mean: 97, half: 0.4}, 1, yes},
		{interval{mean: 97, half: 0.4}, 1.1, Weaker}, // above, and less than 1.1 times
		{interval{mean: 50, half: 0.4}, 2, yes},
		{interval{mean: 97, half: 0.6}, 0.5, Draw},
		{interval{mean: 103, half: 0.4}, 1, no},
	} {
		if got := i.times(c.factor, c.other); got != c.want {
			t.Errorf("100 +- 2.48 against %+v, %g times: %s, want %s", c.other, c.factor, got, c.want)
		}
	}
	if top, at := best([]interval{{mean: 3, half: 9}, {mean: 5}, {mean: 5}}); top.mean != 5 || at != 1 {
		t.Errorf("best %+v at %d", top, at)
	}
	if worst(yes, Weaker, Draw) != Draw || worst() != yes || worst(Draw, no) != no {
		t.Error("the worst verdict is not the worst")
	}
	// What is the same in each seed is certain, however the seeds differ.
	if r := ratios([]float64{90, 180}, []float64{100, 200}); r.mean != 0.9 || r.half > 1e-9 {
		t.Errorf("ratios %+v, want 0.9", r)
	}
}

// Verdicts stand in the report by name, and the summary counts each apart.
func TestVerdictsInTheReport(t *testing.T) {
	out := t.TempDir()
	s := newSession(t, context.Background(), out)
	s.section = &section{ID: "fig9", Title: "Figure 9"}
	for _, v := range []Verdict{yes, Weaker, Weaker, Draw, no} {
		c := Claim{What: "claim"}
		c.judge(v)
		if c.verdict() != v {
			t.Errorf("judged %s, is %s", v, c.verdict())
		}
		s.Claim(c)
	}
	if err := s.section.save(out); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(out, symphony()); err != nil {
		t.Fatal(err)
	}
	report := read(t, out, "REPORT.md")
	for _, want := range []string{"| 1 of 5 | 2 | 1 |", "| weaker |", "| draw |", "| no |", "| yes |"} {
		if !strings.Contains(report, want) {
			t.Errorf("%q is missing in\n%s", want, report)
		}
	}
}

// A ratio to nothing must not lose the figure.
func TestClaimWithoutARatio(t *testing.T) {
	out := t.TempDir()
	s := newSession(t, context.Background(), out)
	zero := 0.0
	s.Claim(Claim{What: "a", Ratio: 1 / zero})
	s.Claim(Claim{What: "b", Ratio: zero / zero})
	if err := s.section.save(out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "data", "fig1.json"))
	var kept section
	if err != nil || json.Unmarshal(text, &kept) != nil || len(kept.Claims) != 2 || kept.Claims[0].Ratio != 0 || kept.Claims[1].Ratio != 0 {
		t.Errorf("%v, kept %+v", err, kept.Claims)
	}
}
