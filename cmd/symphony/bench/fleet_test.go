package bench

import (
	"strings"
	"testing"
)

// TestFleetFolder: a short run does not write where the full report is.
func TestFleetFolder(t *testing.T) {
	for flags, want := range map[string]string{"": "bench/fleet", "--quick": "build/fleet", "--out=/x": "/x", "--quick --out=/x": "/x"} {
		if o, err := parsed[fleetCmd](t, strings.Fields(flags)...).options(); err != nil || o.Out != want || o.Parallel < 1 || o.Seed != 1 {
			t.Errorf("%q: %+v, %v, want the folder %s", flags, o, err, want)
		}
	}
	if _, err := parsed[fleetCmd](t, "--parallel=-3").options(); err == nil || !strings.Contains(err.Error(), "--parallel: -3") {
		t.Errorf("error %v, want one of --parallel", err)
	}
}
