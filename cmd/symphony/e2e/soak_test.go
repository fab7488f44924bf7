package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/soak"
)

// TestSoak is a soak of seconds: a few faults of a seed, every check. SLOs are five
// times those of the long run, and the rate a fifth; a machine that is too busy for
// them still loses nothing.
func TestSoak(t *testing.T) {
	beside(t)
	path := filepath.Join(t.TempDir(), "soak.json")
	out, err := run(t, "bench", "soak", "--quiet", "--json", path, "--slack", "5", "--warmup", "2s",
		"--duration", span(15*time.Second, 3*time.Minute).String(), "--every", span(5*time.Second, 15*time.Second).String())
	t.Logf("%s", tail(out, 40))
	r := readSoak(t, path)
	if (err == nil) != r.Passed {
		t.Errorf("passed %v, but it ended with %v", r.Passed, err)
	}
	if c := r.Counts; 2*c.Outputs < c.Asked {
		t.Errorf("of %d requests only %d were served", c.Asked, c.Outputs)
	}
	if len(r.Violations) != 0 || len(r.Late) == 0 && !r.Passed || r.Counts.Asked == 0 || r.Counts.Asked != r.Counts.Answered || len(r.Windows) == 0 || len(r.Windows) > len(r.Plan) {
		t.Errorf("%s: violations %q, counts %+v, %d windows of %d planned", r.Verdict, r.Violations, r.Counts, len(r.Windows), len(r.Plan))
	}
}

func readSoak(t *testing.T, path string) (r soak.Result) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		t.Fatalf("no result: %v", err)
	}
	return r
}

// TestSoakInterrupted: Ctrl-C ends a soak and its processes, and it reports what it counted.
func TestSoakInterrupted(t *testing.T) {
	beside(t)
	path := filepath.Join(t.TempDir(), "soak.json")
	p := start(t, "soak", "bench", "soak", "--quiet", "--json", path, "--slack", "5", "--warmup", "1s", "--every", "2s")
	time.Sleep(8 * time.Second)
	p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-p.done:
	case <-time.After(90 * time.Second):
		t.Fatal("does not end")
	}
	r := readSoak(t, path)
	if !r.Interrupted || r.Passed || len(r.Violations) != 0 || r.Counts.Asked == 0 || r.Counts.Open != 0 {
		t.Errorf("%s: counts %+v, violations %q", r.Verdict, r.Counts, r.Violations)
	}
}
