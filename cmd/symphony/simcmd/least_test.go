package simcmd

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// TestLeastGPUsByHeadroom: the table has each headroom, a bound that deferral cannot keep is said,
// and what may be spent on latency keeps it.
func TestLeastGPUsByHeadroom(t *testing.T) {
	table, _, err := simulated(t, "--least-gpus", "--rate=1000", "--queue-p99=3ms")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 2 {
			rows[f[0]] = f
		}
	}
	for _, h := range headrooms() {
		if rows[h] == nil {
			t.Errorf("the table lacks headroom %s:\n%s", h, table)
		}
	}
	if len(rows["0"]) < 2 || rows["0"][1] != "above" || len(rows["all"]) < 2 || rows["all"][1] == "above" || !strings.Contains(table, "more would only be idle") {
		t.Errorf("full deferral keeps no queue of 3 ms, all GPUs do:\n%s", table)
	}
}

// TestLeastGPUsRecords: JSON and CSV say what was sought and found, for any policy.
func TestLeastGPUsRecords(t *testing.T) {
	text, _, err := simulated(t, "--least-gpus", "--rate=1000", "--policy=eager/target", "--json=-")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Records []scenario.Outcome }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Records) != 1 || strings.Contains(text, "summary") {
		t.Fatalf("%v: %s", err, text)
	}
	o := doc.Records[0]
	if o.Least == nil || o.Least.GPUs < 1 || o.Least.GPUs != o.Scenario.GPUs || o.Version == "" {
		t.Errorf("%+v", o)
	}
	text, _, err = simulated(t, "--least-gpus", "--rate=1000", "--csv=-")
	rows, err2 := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || err2 != nil || len(rows) != 1+len(headrooms()) || rows[1][2] != "least-gpus" {
		t.Errorf("%v, %v: %s", err, err2, text)
	}
}

// TestLeastGPUsOfATrace: its own rate is what counts.
func TestLeastGPUsOfATrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv")
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, "%.6f\n", float64(i)/1500)
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	text, _, err := simulated(t, "--least-gpus", "--trace", path, "--policy=symphony/defer", "--json=-")
	var doc struct{ Records []scenario.Outcome }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Records) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if o := doc.Records[0]; err != nil || o.Least.GPUs < 2 || o.Least.GPUs > 4 || o.Need > float64(o.Least.GPUs) {
		t.Errorf("%v: %+v, need %g", err, o.Least, o.Need)
	}
}

func TestLeastGPUsStops(t *testing.T) {
	if out, _, err := simulatedUntil(t, func() bool { return true }, "--least-gpus", "--rate=1000"); err == nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
}
