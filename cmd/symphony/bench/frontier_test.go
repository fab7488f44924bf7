package bench

import (
	"strings"
	"testing"
)

// TestFrontierFolder: a short run does not write where the full report is.
func TestFrontierFolder(t *testing.T) {
	for flags, want := range map[string]string{"": "bench/frontier", "--quick": "build/frontier", "--out=/x": "/x", "--quick --out=/x": "/x"} {
		if o, err := parsed[frontierCmd](t, strings.Fields(flags)...).options(); err != nil || o.Out != want || o.Parallel < 1 {
			t.Errorf("%q: %+v, %v, want the folder %s", flags, o, err, want)
		}
	}
	if _, err := parsed[frontierCmd](t, "--parallel=-3").options(); err == nil || !strings.Contains(err.Error(), "--parallel: -3") {
		t.Errorf("error %v, want one of --parallel", err)
	}
}
