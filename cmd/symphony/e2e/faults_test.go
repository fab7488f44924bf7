package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// traffic is open-loop load from the test's own client, with every answer kept.
type traffic struct {
	counts load.Counts
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	answers []load.Observation
}

// Observe implements load.Observer.
func (f *traffic) Observe(o load.Observation) {
	f.mu.Lock()
	f.answers = append(f.answers, o)
	f.mu.Unlock()
}

// traffic starts load on a model until stop.
func (c *cluster) traffic(model string, rate float64) *traffic {
	c.t.Helper()
	return c.trafficOf(rate, model)
}

// trafficOf is traffic over several models alike.
func (c *cluster) trafficOf(rate float64, models ...string) *traffic {
	c.t.Helper()
	gen, err := workload.New(workload.Config{Process: workload.Poisson, Rate: rate, Models: len(models), Seed: 1})
	if err != nil {
		c.t.Fatal(err)
	}
	target := &load.ClientTarget{Client: c.client}
	cfg := load.Config{Duration: 3600 * mono.Second, OutstandingMax: 10000, Drain: 3 * mono.Second}
	for _, model := range models {
		e, err := c.client.Model(model, "")
		if err != nil {
			c.t.Fatal(err)
		}
		cfg.SLO = append(cfg.SLO, e.Spec.SLO)
		target.Models = append(target.Models, load.MakeInput(&e.Spec, 1))
	}
	f := &traffic{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	c.t.Cleanup(func() { cancel(); <-f.done })
	go func() {
		defer close(f.done)
		load.Run(ctx, cfg, target, gen, f, &f.counts)
	}()
	return f
}

// stop ends the load and fails the test unless each request has one answer.
func (f *traffic) stop(t *testing.T) {
	t.Helper()
	f.cancel()
	<-f.done
	if f.counts.Lost() != 0 || f.counts.Duplicates.Load() != 0 || f.counts.Sent.Load() == 0 {
		t.Errorf("of %d requests %d got no answer and %d a second one", f.counts.Sent.Load(), f.counts.Lost(), f.counts.Duplicates.Load())
	}
}

// between counts the answers by reason of requests meant to leave in [from, to).
func (f *traffic) between(from, to time.Time) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]int{}
	for _, o := range f.answers {
		if at := o.Intended.Std(); !at.Before(from) && at.Before(to) {
			out[o.Answer.Reason]++
		}
	}
	return out
}

// TestBackendKilled: kill -9 of one of two backends under load. Its requests
// are queued again or answered with a reason, the others do not notice, and
// the restarted backend is used again within 2 s.
func TestBackendKilled(t *testing.T) {
	beside(t)
	c := newCluster(t, emulated{"m", 1, 5, "150ms"})
	doomed, _ := c.backend("doomed", 2) // first: it has the low ids, which the load prefers
	c.dial("m")
	c.waitGPUs("m", 2, 10*time.Second)
	_, other := c.backend("other", 2)
	c.waitGPUs("m", 4, 10*time.Second)
	machine := watch(t)
	f := c.traffic("m", 400)
	time.Sleep(2 * time.Second)
	killed := time.Now()
	doomed.kill()
	time.Sleep(2 * time.Second)
	before := metric(t, c.metrics, "symphony_gpu_batches_total")
	restarted := time.Now()
	_, again := c.backend("doomed", 2)
	c.waitGPUs("m", 4, prompt())
	eventually(t, prompt()-time.Since(restarted), "the restarted backend runs batches", func() error {
		if n, err := readMetric(again, "symphony_backend_batches_total"); err != nil || n == 0 {
			return fmt.Errorf("%g batches, %v", n, err)
		}
		return nil
	})
	time.Sleep(time.Second)
	f.stop(t)
	t.Logf("before the kill %v; in the second after it %v; later %v", f.between(time.Time{}, killed), f.between(killed, killed.Add(time.Second)), f.between(killed.Add(time.Second), time.Now()))
	bad := badOf(f.between(time.Time{}, killed)) + badOf(f.between(killed.Add(time.Second), restarted))
	if float64(bad) > 1150*tolerance(0.05, 0.01)+400*machine.lost(t, 150*time.Millisecond) { // about 1,150 were sent then
		t.Errorf("%d requests are bad away from the kill", bad)
	}
	if after := f.between(killed, killed.Add(time.Second)); badOf(after) > after[""] {
		t.Errorf("most requests around the kill are bad: %v", after)
	}
	if metric(t, other, "symphony_backend_batches_total") == 0 || metric(t, c.metrics, "symphony_gpu_batches_total") <= before {
		t.Error("the other backend stood still")
	}
}

func badOf(reasons map[string]int) int {
	n := 0
	for reason, k := range reasons {
		if reason != "" {
			n += k
		}
	}
	return n
}

// TestFrontendKilled: kill -9 of a frontend under load. The READs of its slabs
// end, nothing of it stays in scheduler or backend, others do not notice.
func TestFrontendKilled(t *testing.T) {
	beside(t)
	c := newCluster(t, emulated{"m", 1, 5, "150ms"})
	_, backend := c.backend("b", 4)
	c.dial("m")
	f := c.traffic("m", 200)
	time.Sleep(time.Second)
	goroutines := [2]float64{metric(t, c.metrics, "go_goroutines"), metric(t, backend, "go_goroutines")}
	for range 3 {
		victim := start(t, "victim", "bench", "load", "--quiet", "--scheduler", "tcp:"+c.address, "--rate", "500", "--duration", "30s")
		eventually(t, 10*time.Second, "the victim sends", func() error {
			if n, err := readMetric(backend, "go_goroutines"); err != nil || n <= goroutines[1] {
				return fmt.Errorf("no data link yet: %g goroutines, %v", n, err)
			}
			return nil
		})
		time.Sleep(500 * time.Millisecond)
		victim.kill()
		time.Sleep(300 * time.Millisecond)
	}
	time.Sleep(time.Second)
	f.stop(t)
	if reasons := f.between(time.Time{}, time.Now()); float64(badOf(reasons)) > float64(reasons[""])*tolerance(0.05, 0.02) {
		t.Errorf("the other frontend noticed: %v", reasons)
	}
	eventually(t, 5*time.Second, "nothing leaks", func() error {
		after := [2]float64{metric(t, c.metrics, "go_goroutines"), metric(t, backend, "go_goroutines")}
		queued := metric(t, c.metrics, "symphony_queue_requests")
		if after[0] > goroutines[0]+3 || after[1] > goroutines[1]+3 || queued != 0 {
			return fmt.Errorf("goroutines %v, before %v; %g requests queued", after, goroutines, queued)
		}
		return nil
	})
}

// TestSchedulerRestarted: clients get unavailable at once, and service again
// within 2 s of the restart, with nothing else restarted.
func TestSchedulerRestarted(t *testing.T) {
	beside(t)
	c := newCluster(t, emulated{"m", 1, 5, "150ms"})
	c.backend("b", 2)
	c.dial("m")
	infer := func() error {
		_, err := c.client.Infer(context.Background(), frontend.Request{Model: "m", Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}})
		return err
	}
	for round := range 3 {
		eventually(t, span(5*time.Second, time.Second), fmt.Sprintf("service before kill %d", round+1), infer) // one may be late on a busy machine
		c.scheduler.kill()
		eventually(t, span(5*time.Second, time.Second), "unavailable", func() error {
			begin := time.Now()
			err := infer()
			if !errors.Is(err, frontend.ErrUnavailable) || time.Since(begin) > 100*time.Millisecond {
				return fmt.Errorf("after %v: %v", time.Since(begin), err)
			}
			return nil
		})
		time.Sleep(time.Second) // the peers' back-off is at its longest
		c.startScheduler()
		eventually(t, prompt(), "service after the restart", infer)
	}
}

// TestOpenRequestsAtSchedulersEnd: requests that wait when the scheduler is
// killed are answered at once, each once.
func TestOpenRequestsAtSchedulersEnd(t *testing.T) {
	beside(t)
	c := newClusterWith(t, deferral(), emulated{"m", 1, 5, "10s"})
	c.backend("b", 1)
	c.dial("m")
	const n = 50
	var unavailable, other atomic.Int64
	var wait sync.WaitGroup
	wait.Add(n)
	for range n {
		c.client.InferAsync(context.Background(), frontend.Request{Model: "m", Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}},
			func(_ *frontend.Response, err error) {
				if errors.Is(err, frontend.ErrUnavailable) {
					unavailable.Add(1)
				} else {
					other.Add(1)
				}
				wait.Done()
			})
	}
	time.Sleep(100 * time.Millisecond)
	c.scheduler.kill()
	done := make(chan struct{})
	go func() { wait.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(span(5*time.Second, 2*time.Second)): // their own deadlines are at 10 s
		t.Fatal("requests wait on after their scheduler died")
	}
	if unavailable.Load() != n {
		t.Errorf("%d unavailable, %d others, want %d unavailable", unavailable.Load(), other.Load(), n)
	}
}
