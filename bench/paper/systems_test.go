package paper

import "testing"

// TestSystemOf: names that are kept with results go on to mean a system, with
// its frontends, up to both ends of the timeouts of figure 6.
func TestSystemOf(t *testing.T) {
	for name, frontends := range map[string]int{Symphony: 0, SymphonyNone: 0, SymphonyDefer: 0, Algorithm1: 0, Nexus1FE: 1, Nexus8FE: 8, ShepherdCalm: 0, TimeoutOf(0): 0, TimeoutOf(12.5): 0, TimeoutOf(100): 0} {
		if p, err := SystemOf(name); err != nil || p.New == nil || p.Frontends != frontends {
			t.Errorf("%s: %+v, %v; want %d frontends", name, p, err, frontends)
		}
	}
	for _, name := range []string{"", "symphony", "symphony/paper", "Nexus", Timeout, "timeout x", "timeout NaN", TimeoutOf(-1), TimeoutOf(101)} {
		if p, err := SystemOf(name); err == nil || p.New != nil {
			t.Errorf("%q is a system", name)
		}
	}
}

// TestTimeoutOf: k is the share of the SLO that its name says.
func TestTimeoutOf(t *testing.T) {
	for percent, want := range map[float64]string{0: "timeout:0", 35: "timeout:0.35", 12.5: "timeout:0.125", 100: "timeout:1"} {
		if got, err := policyOf(TimeoutOf(percent)); err != nil || got != want {
			t.Errorf("%g %%: %q, %v, want %q", percent, got, err, want)
		}
	}
}
