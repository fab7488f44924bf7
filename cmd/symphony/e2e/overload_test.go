package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// outcomes is how many answers of each sort a burst got.
type outcomes struct {
	served, late int
	full         int // refused at the door: ErrOverloaded with ReasonFull
	other        map[string]int
}

// burst sends n requests at once and waits for their answers, one each.
func (c *cluster) burst(model string, floats, n int) outcomes {
	c.t.Helper()
	out := outcomes{other: map[string]int{}}
	var mu sync.Mutex
	answers := make([]int, n)
	done := make(chan struct{}, 2*n)
	in := []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{int64(floats)}, Data: make([]byte, 4*floats)}}
	for i := range n {
		c.client.InferAsync(context.Background(), frontend.Request{Model: model, Inputs: in}, func(r *frontend.Response, err error) {
			mu.Lock()
			defer mu.Unlock()
			answers[i]++
			var e *frontend.Error
			switch {
			case err == nil && r.Slack >= 0:
				out.served++
			case err == nil || errors.Is(err, frontend.ErrDeadlineExceeded):
				out.late++
			case errors.As(err, &e) && e.Kind == frontend.ErrOverloaded && e.Reason == wire.ReasonFull:
				out.full++
			default:
				out.other[err.Error()]++
			}
			done <- struct{}{}
		})
	}
	for range n {
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			c.t.Fatal("requests wait without an answer")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for i, k := range answers {
		if k != 1 {
			c.t.Errorf("request %d got %d answers", i, k)
		}
	}
	return out
}

// TestDoorsShed: whatever is full says so at once, to those that it has no room for;
// what it took it serves; and the next burst finds as much room as the first.
func TestDoorsShed(t *testing.T) {
	beside(t)
	const sent = 300
	for _, door := range []struct {
		name     string
		flags    []string
		options  frontend.Options
		floats   int
		admitted int // of a burst, at least; what is served makes room for some more
	}{
		{"queue of a model", []string{"--set=scheduler.queue_max=40"}, frontend.Options{ArenaBytes: 16 << 20}, 8, 40},
		// Outputs reach the client before the scheduler hears that their batches have ended: the last one
		// of the burst before, on each GPU, may still be counted.
		{"requests of a loop", []string{"--set=scheduler.requests_max=40"}, frontend.Options{ArenaBytes: 16 << 20}, 8, 40 - 2*8},
		{"open requests", nil, frontend.Options{ArenaBytes: 16 << 20, MaxInFlight: 40}, 8, 40},
		{"arena", nil, frontend.Options{ArenaBytes: 1}, 1 << 14, 16}, // one chunk of 1 MiB, in slabs of 64 KiB
	} {
		t.Run(door.name, func(t *testing.T) {
			c := newClusterWith(t, door.flags)
			c.model("m", door.floats, 2*time.Second)
			c.backend("b", 2)
			c.dialWith(door.options, "m")
			for round := range 2 {
				o := c.burst("m", door.floats, sent)
				t.Logf("burst %d: %d served, %d late, %d full, others %v", round+1, o.served, o.late, o.full, o.other)
				if len(o.other) != 0 || o.full == 0 || o.full > sent-door.admitted {
					t.Errorf("burst %d: %d full, others %v; at least %d of %d have room, not all", round+1, o.full, o.other, door.admitted, sent)
				}
				if float64(o.late) > float64(sent-o.full)*tolerance(0.5, 0.01) {
					t.Errorf("burst %d: %d of %d that were admitted are late", round+1, o.late, sent-o.full)
				}
				if n := c.client.InFlight(); n != 0 {
					t.Errorf("%d requests are open after the last answer", n)
				}
			}
		})
	}
}

// model adds a model to the repository, before a backend is started.
func (c *cluster) model(name string, floats int, slo time.Duration) {
	c.t.Helper()
	text := fmt.Sprintf("platform: emulated\ndevice_type: emulated\nslo: %v\nmax_batch: 8\nprofile: {alpha_ms: 1, beta_ms: 10}\n"+
		"inputs: [{name: input, type: FP32, shape: [%d]}]\noutputs: [{name: output, type: FP32, shape: [8]}]\n", slo, floats)
	if err := os.MkdirAll(filepath.Join(c.repo, name), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.repo, name, "config.yaml"), []byte(text), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// TestTwiceTheCapacity: at twice the bound on the goodput, sent by the client library,
// each request is answered once, what is too much is shed with a reason that says so,
// and the goodput stays near the bound.
func TestTwiceTheCapacity(t *testing.T) {
	beside(t)
	const gpus, slo = 2, 400 * time.Millisecond
	p, err := profile.Linear(10*mono.Millisecond, 50*mono.Millisecond, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, bound := report.Staggered(p, mono.Dur(slo), gpus)
	c := newCluster(t, emulated{"m", 10, 50, slo.String()})
	c.backend("b", gpus)
	c.dial("m")
	f := c.traffic("m", 2*bound)
	time.Sleep(2 * time.Second)
	from, counted := time.Now(), span(8*time.Second, 30*time.Second)
	time.Sleep(counted + time.Second) // the last ones are answered, too
	f.stop(t)
	got := f.between(from, from.Add(counted))
	goodput := float64(got[""]) / counted.Seconds()
	t.Logf("offered %.0f r/s, twice the bound; served %.0f r/s, %.2f of the bound; %v", 2*bound, goodput, goodput/bound, got)
	if goodput < bound*(1-tolerance(0.25, 0.1)) {
		t.Errorf("goodput %.0f r/s, the bound is %.0f", goodput, bound)
	}
	shed := got["shed"] + got["deadline"] + got["full"]
	for reason, n := range got {
		switch reason {
		case "", "shed", "deadline", "full":
		case "late", "expired": // a pause of the machine
			if float64(n) > tolerance(0.1, 0.01)*float64(shed) {
				t.Errorf("%d requests are %s, %d shed at the door", n, reason, shed)
			}
		default:
			t.Errorf("%d requests are answered %q", n, reason)
		}
	}
}
