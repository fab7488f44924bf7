package frontier

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/invariants"
)

func tiny() []Workload {
	return []Workload{{Name: "tiny", Title: "Tiny", Models: "ResNet50:1.053:5.072:25", GPUs: 3, Warmup: 0.5, Seconds: 1, Rates: []float64{200}}}
}

func ran(t *testing.T, parallel int) (r Result, report string) {
	t.Helper()
	dir := t.TempDir()
	if err := Run(t.Context(), Result{Command: "symphony bench frontier"}, tiny(), Options{Out: dir, Quick: true, Parallel: parallel, Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data/frontier.csv", "plots/tiny-load.svg", "plots/tiny-frontier.png"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "data/frontier.json"))
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	all, err2 := os.ReadFile(filepath.Join(dir, "REPORT.md"))
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	return r, string(all)
}

// TestRun: each rule at each load, whatever runs beside it; deferral waits longer than eager
// dispatch and needs no more GPUs.
func TestRun(t *testing.T) {
	again, report2 := ran(t, 4)
	if invariants.Enabled {
		return // eight times as slow, and one at a time has no races
	}
	r, report := ran(t, 1)
	if len(r.Points) != len(Rules())*(len(loads(true))+1) || len(again.Points) != len(r.Points) || report != report2 {
		t.Errorf("%d and %d points", len(r.Points), len(again.Points))
	}
	for i, p := range r.Points {
		if p != again.Points[i] {
			t.Errorf("%+v with one at a time, %+v with four", p, again.Points[i])
		}
		if p.Need <= 0 || p.GPUs < 1 || p.Any < p.GPUs || p.Running > float64(p.Any) || p.LatencyP50 < p.QueueP50 {
			t.Errorf("implausible: %+v", p)
		}
	}
	low := &r.Points[0]
	w := &tiny()[0]
	if eager, deferred := r.at(w, "eager", low), r.at(w, "symphony/defer", low); deferred.QueueP50 <= eager.QueueP50 || deferred.Running > eager.Running+0.05 {
		t.Errorf("eager %+v, deferred %+v", eager, deferred)
	}
	if strings.Count(report, "| headroom 0.25 |") != 8 || !strings.Contains(report, "200 r/s") {
		t.Errorf("the report:\n%s", report)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := Run(ctx, Result{}, tiny(), Options{Out: dir, Quick: true}); err == nil || !strings.Contains(err.Error(), "nothing is written") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "REPORT.md")); err == nil {
		t.Error("there is a report")
	}
	if err := Run(ctx, Result{}, nil, Options{Out: "/proc/nowhere"}); err == nil || !strings.Contains(err.Error(), "--out") {
		t.Errorf("error %v, want one of --out", err)
	}
}

// TestWorkloads: each of them can be simulated by each rule.
func TestWorkloads(t *testing.T) {
	for _, quick := range []bool{true, false} {
		for _, w := range Workloads(quick) {
			for _, r := range append(Rules(), searched()...) {
				if _, err := w.plan(r, 100); err != nil {
					t.Errorf("%s, %s: %v", w.Name, r.Name, err)
				}
			}
		}
	}
}
