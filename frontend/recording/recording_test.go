package recording

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRecording: what is recorded by many goroutines is a trace that the simulator takes: all of it, in the order
// of its times.
func TestRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	r, err := Open(Config{Path: path, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for range 500 {
				r.Add(fmt.Sprintf("m%d", g%2), "1", 20*time.Millisecond, 1+g)
			}
		})
	}
	all.Wait()
	r.Add("a,b", "1", 0, 1)
	r.Add("a", "\n", 0, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if written, lost := r.file.Counts(); written != 2000 || lost != 2 {
		t.Errorf("%d lines written, %d lost", written, lost)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	trace, err := workload.NewTrace(file, workload.TraceConfig{Name: path, Index: map[string]int{"m0": 0, "m1": 1}})
	if err != nil {
		t.Fatal(err)
	}
	counts, last := map[int]int{}, mono.Time(0)
	for range 2000 {
		at, model, ok := trace.Next()
		if at < last || !ok {
			t.Fatalf("at %v, after %v", at, last)
		}
		counts[model]++
		last = at
	}
	trace.Next()
	if trace.Err() != nil || counts[0] != 1000 || counts[1] != 1000 {
		t.Errorf("%v, %v", counts, trace.Err())
	}
	text, _ := os.ReadFile(path)
	line := strings.Split(string(text), "\n")[1]
	var seconds float64
	var rest string
	if _, err := fmt.Sscanf(line, "%f,%s", &seconds, &rest); err != nil || seconds < float64(before.Unix()) || seconds > float64(time.Now().Unix()+1) || !strings.Contains(rest, ",1,20000,") {
		t.Errorf("%q: %v", line, err)
	}
}

// TestRecordingEnds at its size, which is said once; what comes after is counted.
func TestRecordingEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	said := 0
	r, err := Open(Config{Path: path, Max: 300, Failed: func(err error) {
		if said++; !errors.Is(err, ErrFull) {
			t.Error(err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r.Add("model", "1", 0, 1)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 300 || info.Size() < 200 || said != 1 {
		t.Errorf("%v, %v, said %d times", info.Size(), err, said)
	}
	if written, lost := r.file.Counts(); written+lost != 100 || written < 2 {
		t.Errorf("%d written, %d lost", written, lost)
	}
	if _, err := Open(Config{Path: filepath.Join(path, "none")}); err == nil || !strings.Contains(err.Error(), "recording") {
		t.Error(err)
	}
}

// TestRestart: a recording goes on behind its last whole line, with one header and times that do not go back, also
// where the host's clock did, and keeps to its size.
func TestRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	later := time.Now().Unix() + 1000
	for name, c := range map[string]struct {
		before string
		lines  int
	}{
		"none": {"", 0}, "half a header": {Header[:9], 0}, "a header": {Header, 0}, "half a first line": {Header + "12345.0", 0},
		"lines":       {fmt.Sprintf("%s%d.000001,m,1,0,1\n%d.000002,m,1,0,1\n", Header, later, later), 2},
		"half a line": {fmt.Sprintf("%s%d.000001,m,1,0,1\n%d.0", Header, later, later), 1},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			r, err := Open(Config{Path: path})
			if err != nil {
				t.Fatal(name, err)
			}
			r.Add("m", "1", 0, 1)
			if err := r.Close(); err != nil {
				t.Fatal(name, err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		trace, err := workload.NewTrace(strings.NewReader(string(text)), workload.TraceConfig{Name: path, Index: map[string]int{"m": 0}})
		if err != nil {
			t.Fatal(name, err)
		}
		last, n := mono.Time(0), 0
		for at, _, ok := trace.Next(); ok; at, _, ok = trace.Next() {
			if n++; at < last {
				t.Errorf("%s: at %v, after %v", name, at, last)
			}
			last = at
		}
		if trace.Err() != nil || n != c.lines+2 || strings.Count(string(text), "timestamp") != 1 {
			t.Errorf("%s: %d requests, %v: %q", name, n, trace.Err(), text)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(Config{Path: path, Max: info.Size()})
	if err != nil {
		t.Fatal(err)
	}
	r.Add("m", "1", 0, 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, lost := r.file.Counts(); lost != 1 {
		t.Errorf("%d lost: it does not keep to its size", lost)
	}
}

// TestOneWriter: a file that is recorded into is refused to others until its recorder closes, or moves on to a
// new file of the name.
func TestOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	first, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	first.Add("m", "1", 0, 1)
	for range 2 {
		if _, err := Open(Config{Path: path}); !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "frontend.record") {
			t.Fatalf("a second one: %v", err)
		}
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // it is looked for once a second
		first.Add("m", "1", 0, 1)
		if _, err := os.Stat(path); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no new file")
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // it is locked after it is made
		first.Add("m", "1", 0, 1)
		r, err := Open(Config{Path: path})
		if errors.Is(err, ErrTaken) {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("the new file is not the first one's: %v", err)
		}
		r.Close()
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), Header) != 1 {
		t.Errorf("%q, %v", text, err)
	}
}

// TestOthersFile: what is no recording is left as it is, and the error says what to do.
func TestOthersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.csv")
	for _, before := range []string{"x", "timestamp,model\n1,m\n", Header + "no time,m\n", Header + strings.Repeat("x", 2*lineMax)} {
		if err := os.WriteFile(path, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Path: path}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%.60q: %v", before, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != before {
			t.Errorf("%.60q became %.60q, %v", before, text, err)
		}
	}
}
