package soak

import (
	"strings"
	"testing"
)

// A leak is seen, noise is not, and a life too short to tell is not judged.
func TestUsageBites(t *testing.T) {
	u := &usage{}
	for i := range 60 {
		noise := float64(i % 3 * 200) // goroutines of connections that come and go
		u.add("leaks", 1, map[string]float64{"go_goroutines": 50 + 20*float64(i), "process_open_fds": 20})
		u.add("busy", 1, map[string]float64{"go_goroutines": 50 + noise, "process_open_fds": 20 + noise})
	}
	for i := range samplesLeast - 1 {
		u.add("young", 2, map[string]float64{"go_goroutines": 1000 * float64(i)})
	}
	wrong := u.judge()
	if len(wrong) != 1 || !strings.Contains(wrong[0], "leaks (life 1): goroutines grew from 350 to 950") {
		t.Errorf("found %q", wrong)
	}
}
