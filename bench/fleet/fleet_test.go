package fleet

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// tiny is an hour of a cluster of 64 GPUs.
func tiny(t *testing.T, o Options) Result {
	c, err := config(o)
	if err != nil {
		t.Fatal(err)
	}
	c.GPUs, c.Models, c.SubClusters, c.Peak, c.Length, c.Regular, c.RollOuts = 64, 160, 2, 40, 3600*mono.Second, 3, 3
	c.Failures, c.Changes, c.Restarts, c.Stretch = 4, 9, 1, mono.Second/2
	r := Result{Command: "symphony bench fleet", Version: "test"}
	if err := r.run(t.Context(), c, o); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSameBytes: two runs write the same report, data and plots, however many windows are
// simulated at a time.
func TestSameBytes(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	tiny(t, Options{Out: a, Quick: true, Seed: 7, Parallel: 1})
	tiny(t, Options{Out: b, Quick: true, Seed: 7, Parallel: 3})
	for _, name := range []string{"REPORT.md", "data/day.csv", "data/day.json", "plots/day.svg", "plots/day.png"} {
		x, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			t.Fatal(err)
		}
		y, err := os.ReadFile(filepath.Join(b, name))
		if err != nil || len(x) == 0 || !bytes.Equal(x, y) {
			t.Errorf("%s differs, or is empty: %v", name, err)
		}
	}
}

// TestReport: each row of the table has a value for each planner, and none is a number that is none.
func TestReport(t *testing.T) {
	r := tiny(t, Options{Out: t.TempDir(), Quick: true, Seed: 1, Parallel: 2})
	text := string(r.report())
	rows := 0
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		rows++
		if n := strings.Count(line, "|"); n != len(r.Days)+2 || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") || strings.Contains(line, "|  |") {
			t.Errorf("row %q", line)
		}
	}
	if want := 1 + len(r.requestRows()) + len(controlRows()); rows != want {
		t.Errorf("%d rows, want %d:\n%s", rows, want, text)
	}
}

// TestInterrupted: nothing is written.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	err := Run(ctx, Result{}, Options{Out: out, Quick: true, Seed: 1})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "REPORT.md")); err == nil {
		t.Error("a report is written")
	}
}
