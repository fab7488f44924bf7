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
	if written, lost := r.file.Counts(); written != 2001 || lost != 2 {
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
	if written, lost := r.file.Counts(); written+lost != 101 || written < 3 {
		t.Errorf("%d written, %d lost", written, lost)
	}
	if _, err := Open(Config{Path: filepath.Join(path, "none")}); err == nil || !strings.Contains(err.Error(), "recording") {
		t.Error(err)
	}
}
