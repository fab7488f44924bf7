package accesslog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, c Config) (l *Log, lines func() []map[string]any) {
	t.Helper()
	c.Path = filepath.Join(t.TempDir(), "access.log")
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return l, func() []map[string]any {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		return read(t, c.Path)
	}
}

func read(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}

// served is a request that was answered in time.
func served() Entry {
	return Entry{Protocol: "http", Method: "POST", Route: "infer", Model: "m", Version: "2", Client: "127.0.0.1:5", ID: []byte("a\"b"), Status: 200,
		Received: 100, Sent: 40, Total: 5 * time.Millisecond, Request: 77, BatchSize: 3, GPU: 0, Queue: 2 * time.Millisecond,
		Execute: time.Millisecond, Slack: time.Second}
}

// TestLine: a line has what there is to say, and no more.
func TestLine(t *testing.T) {
	l, lines := open(t, Config{Share: 1})
	e := served()
	l.Tell(&e)
	l.Tell(&Entry{Protocol: "http", Method: "GET", Route: "none", Status: 404, Reason: "not_found", Refused: true, Received: -1, Trace: "abc"})
	got := lines()
	if len(got) != 2 {
		t.Fatal(got)
	}
	for key, want := range map[string]any{"route": "infer", "model": "m", "version": "2", "id": "a\"b", "status": 200.0, "total_us": 5000.0, "queue_us": 2000.0, "gpu": 0.0,
		"request": 77.0, "batch_size": 3.0, "slack_us": 1e6, "received": 100.0, "reason": nil, "trace_id": nil} {
		if got[0][key] != want {
			t.Errorf("%s: %v, want %v", key, got[0][key], want)
		}
	}
	for key, want := range map[string]any{"reason": "not_found", "status": 404.0, "trace_id": "abc", "model": nil, "batch_size": nil, "received": nil, "sent": 0.0} {
		if got[1][key] != want {
			t.Errorf("%s: %v, want %v", key, got[1][key], want)
		}
	}
	if _, err := time.Parse(time.RFC3339, got[0]["time"].(string)); err != nil {
		t.Error(err)
	}
}

// TestShare: exactly the share of the good ones, evenly; all of the others.
func TestShare(t *testing.T) {
	for share, want := range map[float64]int{0: 0, 0.25: 25, 0.1: 10, 1: 100} {
		l, lines := open(t, Config{Share: share})
		e := served()
		late, refused := e, e
		late.Slack, late.Model = -1, "late"
		refused.Refused, refused.Model = true, "refused"
		for range 100 {
			l.Tell(&e)
			l.Tell(&late)
			l.Tell(&refused)
		}
		count, run, longest := map[any]int{}, 0, 0
		for _, m := range lines() {
			count[m["model"]]++
			if run++; m["model"] == "m" {
				run = 0
			}
			longest = max(longest, run)
		}
		if count["m"] != want || count["late"] != 100 || count["refused"] != 100 {
			t.Errorf("share %g: %v", share, count)
		}
		if want > 0 && longest > 2*100/want+2 {
			t.Errorf("share %g: %d others in a row", share, longest)
		}
	}
}

// TestRate: beyond it lines are counted, and their number is told.
func TestRate(t *testing.T) {
	registry := prometheus.NewRegistry()
	l, lines := open(t, Config{Share: 1, Rate: 10, Metrics: registry})
	e := served()
	const sent = 1000
	for range sent {
		l.Tell(&e)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 2 {
		t.Fatal(families, err)
	}
	told, lost := 0, 0.0
	for _, m := range lines() {
		if n, is := m["lost_lines"].(float64); is {
			lost += n
		} else {
			told++
		}
	}
	if told < 10 || told+int(lost) != sent { // each second that begins meanwhile has ten more
		t.Errorf("%d told, %v lost", told, lost)
	}
}

// TestNoGarbage: a request that is not told costs no memory.
func TestNoGarbage(t *testing.T) {
	l, _ := open(t, Config{Share: 0})
	e := served()
	if n := testing.AllocsPerRun(1000, func() { l.Tell(&e) }); n != 0 {
		t.Errorf("not told: %v allocations", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenFails: a file that cannot be opened is said.
func TestOpenFails(t *testing.T) {
	if _, err := Open(Config{Path: filepath.Join(t.TempDir(), "none", "a")}); err == nil || !strings.Contains(err.Error(), "access log") {
		t.Errorf("a folder that is not there: %v", err)
	}
}
