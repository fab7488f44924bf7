package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestDrawsOptions(t *testing.T) {
	for flags, want := range map[string][]int{"--mixes=3": {0, 1, 2}, "--only=7,9": {7, 9}} {
		if o, err := parsed[drawsCmd](t, flags).options(); err != nil || !slices.Equal(o.Mixes, want) || o.Parallel < 1 || o.Seconds != 60 {
			t.Errorf("%q: %+v, %v, want the mixes %v", flags, o, err, want)
		}
	}
	for _, flag := range []string{"--seconds=0", "--requests=NaN", "--parallel=-1", "--mixes=0", "--mixes=-5", "--mixes=2000000", "--only=3,3", "--only=-1", "--only=4,1000000"} {
		name, _, _ := strings.Cut(flag, "=")
		if _, err := parsed[drawsCmd](t, flag).options(); err == nil || !strings.HasPrefix(err.Error(), name+":") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if _, err := parsed[drawsCmd](t, "--json").options(); err == nil || !strings.Contains(err.Error(), "give --list") {
		t.Errorf("--json without --list: %v", err)
	}
	if _, err := parsed[drawsCmd](t, "--json", "--list").options(); err != nil {
		t.Error(err)
	}
}
