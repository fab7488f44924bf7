package bench

import (
	"strings"
	"testing"
)

// TestPaperFolder: a smoke test does not write where the full report is.
func TestPaperFolder(t *testing.T) {
	for flags, want := range map[string]string{"": "bench/paper", "--quick": "build/paper", "--out=/x": "/x", "--quick --out=/x": "/x"} {
		if o, err := parsed[paperCmd](t, strings.Fields(flags)...).options(); err != nil || o.Out != want || o.Parallel < 1 {
			t.Errorf("%q: %+v, %v, want the folder %s", flags, o, err, want)
		}
	}
}

func TestPaperRefuses(t *testing.T) {
	if _, err := parsed[paperCmd](t, "--parallel=-3").options(); err == nil || !strings.Contains(err.Error(), "--parallel: -3") {
		t.Errorf("error %v, want one of --parallel", err)
	}
	for _, flag := range []string{"--gpus=-1", "--seconds=30"} {
		if _, err := parsed[paperCmd](t, "--of=clockwork", flag).options(); err == nil || !strings.Contains(err.Error(), "--gpus") {
			t.Errorf("%s: error %v, want one", flag, err)
		}
	}
}

// TestPaperCommand: the report tells the flags that its figures depend on.
func TestPaperCommand(t *testing.T) {
	o, err := parsed[paperCmd](t, "--of=clockwork", "--gpus=12", "--mapping=sorted", "--seconds=300").options()
	if want := "symphony bench paper --of clockwork --gpus 12 --mapping sorted --seconds 300"; err != nil || o.Command != want {
		t.Errorf("command %q, %v; want %q", o.Command, err, want)
	}
}
