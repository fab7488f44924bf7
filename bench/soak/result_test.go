package soak

import (
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// A soak passes when nothing is against it: neither what must never be, nor lateness.
func TestVerdict(t *testing.T) {
	for begin, r := range map[string]*Result{
		"PASSED":                             {},
		"INTERRUPTED after 3 s":              {Interrupted: true, Seconds: 3},
		"INTERRUPTED in the warm-up":         {Interrupted: true, Seconds: 3, Config: Config{Warmup: 10 * mono.Second}},
		"FAILED: 1 reasons, the first: lost": {Violations: []string{"lost"}, Interrupted: true},
		"FAILED: 1 reasons, the first: late": {Late: []string{"late"}},
		"FAILED: 2 reasons, the first: lost": {Violations: []string{"lost"}, Late: []string{"late"}},
	} {
		if r.judge(); !strings.HasPrefix(r.Verdict, begin) || r.Passed != (begin == "PASSED") {
			t.Errorf("%s: passed %v, %s", begin, r.Passed, r.Verdict)
		}
	}
}

// A soak without a fault would pass without having tested anything.
func TestRefusesAPlanWithoutFaults(t *testing.T) {
	c := Default()
	if c.Duration = 20 * mono.Second; c.Check() == nil {
		t.Errorf("%d faults, one every %v", len(PlanOf(c)), c.Every)
	}
	c.Every = 5 * mono.Second
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

func TestRefusesConfigurations(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"every": func(c *Config) { c.Every = 1 }, "many": func(c *Config) { c.Duration = 1 << 62 }, "load": func(c *Config) { c.Load = math.NaN() },
	} {
		c := Default()
		if spoil(&c); c.Check() == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestTargets(t *testing.T) {
	c := Default()
	seen := map[string]bool{}
	for _, name := range c.linkNames() {
		seen[name] = true
	}
	if n := c.Backends + 2*c.Frontends + 2*c.Clients; len(seen) != n {
		t.Errorf("%d names of %d links: %v", len(seen), n, c.linkNames())
	}
	for f, want := range map[Fault]string{{Kind: BackendStop, Target: 2}: "backend-2", {Kind: LinkCut, Target: 0}: "backend-0 to scheduler",
		{Kind: LinkStall, Target: c.Backends + 1}: "HTTP to frontend-0", {Kind: Garbage}: "every port"} {
		if got := c.Target(f); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}
