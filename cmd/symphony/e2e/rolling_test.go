package e2e

import (
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// setting is what a rolling change changes of model "m".
type setting struct {
	slo      time.Duration
	maxBatch int
}

// TestRollingChange: four backends under 1,000 requests/s are stopped and started again
// with another SLO and max_batch, one after the other; once down, once up. Scheduler and
// frontend stay. At most 0.1 % of the requests are bad beside what the machine's own
// pauses took, no order is refused, and what was configured is in force at the end.
//
// Batches wait as long as they can, so that they would be larger than the smaller
// max_batch, and come to it long before their deadlines.
func TestRollingChange(t *testing.T) {
	settings := []setting{{500 * time.Millisecond, 48}, {800 * time.Millisecond, 12}, {400 * time.Millisecond, 64}}
	r := startRolling(t, settings[0])
	machine := watch(t)
	load := r.traffic("m", 1000)
	time.Sleep(time.Second)
	for _, s := range settings[1:] {
		r.roll(t, s)
		begin := time.Now()
		time.Sleep(time.Second)
		if most := load.mostBetween(begin.Add(r.slo), time.Now()); most > s.maxBatch || most <= 12 && s.maxBatch > 12 {
			t.Errorf("batches of up to %d after max_batch became %d", most, s.maxBatch)
		}
		r.slo = s.slo
	}
	load.stop(t)
	for i := range r.backends {
		r.refusedNothing(t, i)
	}
	reasons := load.between(time.Time{}, time.Now())
	bad, all := badOf(reasons), badOf(reasons)+reasons[""]
	t.Logf("of %d requests %d are bad: %v", all, bad, reasons)
	if float64(bad) > 0.001*float64(all)+1000*machine.lostBeyond(t, rollingSlack, r.slo) {
		t.Errorf("of %d requests %d are bad: %v", all, bad, reasons)
	}
}

// rollingSlack is less than what the shortest SLO leaves beside a batch's gathering and run.
const rollingSlack = 100 * time.Millisecond

// rolling is a cluster of backends that are exchanged one by one.
type rolling struct {
	*cluster
	http     string
	slo      time.Duration // in force
	backends [4]*process
	metrics  [4]string
}

func startRolling(t *testing.T, s setting) *rolling {
	t.Helper()
	r := &rolling{cluster: newClusterWith(t, deferral()), http: hostPort(freePort(t)), slo: s.slo}
	r.repo = repositoryFor(t, s)
	for i := range r.backends {
		r.backends[i], r.metrics[i] = r.backend(fmt.Sprint("b", i), rollingDevices)
	}
	start(t, "frontend", "frontend", "--scheduler", "tcp:"+r.address, "--http", r.http)
	r.dial("m")
	r.waitGPUs("m", len(r.backends)*rollingDevices, 10*time.Second)
	waitReady(t, r.http, "m")
	r.inForce(t, s)
	return r
}

// rollingDevices is per backend. In batches of 12 the load takes 2.2 devices: with one
// backend away all others are busy, and none is beyond what it can do.
const rollingDevices = 1

func repositoryFor(t *testing.T, s setting) string {
	t.Helper()
	return repositoryOf(t, s.maxBatch, emulated{"m", 1.5, 8, s.slo.String()})
}

// roll stops each backend, as SIGTERM does, and starts it again with the setting.
func (r *rolling) roll(t *testing.T, s setting) {
	t.Helper()
	r.repo = repositoryFor(t, s)
	for i, old := range r.backends {
		r.refusedNothing(t, i)
		if code := old.end(syscall.SIGTERM); code != 0 {
			t.Errorf("%s ended with status %d", old.name, code)
		}
		r.backends[i], r.metrics[i] = r.backend(old.name, rollingDevices)
		r.waitGPUs("m", len(r.backends)*rollingDevices, 10*time.Second)
		time.Sleep(300 * time.Millisecond) // of old and new beside each other
	}
	r.inForce(t, s)
}

// refusedNothing fails the test if a backend refused an order, or had no link for an answer.
func (r *rolling) refusedNothing(t *testing.T, i int) {
	t.Helper()
	if n := metric(t, r.metrics[i], "symphony_backend_failed_total") + metric(t, r.metrics[i], "symphony_backend_unreached_total"); n != 0 {
		t.Errorf("%s failed %g requests", r.backends[i].name, n)
	}
}

// inForce waits until clients, in Go and over HTTP, see the setting.
func (r *rolling) inForce(t *testing.T, s setting) {
	t.Helper()
	eventually(t, 2*time.Second, "the setting is in force", func() error {
		e, err := r.client.Model("m", "")
		if err != nil || e.Spec.SLO.Std() != s.slo || e.Spec.MaxBatch != s.maxBatch {
			return fmt.Errorf("the library says SLO %v, max_batch %d, %v", e.Spec.SLO, e.Spec.MaxBatch, err)
		}
		_, body, err := get("http://" + r.http + "/v2/models/m/config")
		if err != nil {
			return err
		}
		var c struct {
			MaxBatch   int `json:"max_batch_size"`
			Parameters struct {
				SLO struct {
					Value string `json:"string_value"`
				} `json:"slo_ms"`
			} `json:"parameters"`
		}
		if err := json.Unmarshal([]byte(body), &c); err != nil || c.MaxBatch != s.maxBatch || c.Parameters.SLO.Value != fmt.Sprint(s.slo.Milliseconds()) {
			return fmt.Errorf("HTTP says %s, %v", body, err)
		}
		return nil
	})
}

// mostBetween is the largest batch of requests meant to leave in [from, to).
func (f *traffic) mostBetween(from, to time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := 0
	for _, o := range f.answers {
		if at := o.Intended.Std(); !at.Before(from) && at.Before(to) {
			most = max(most, o.Answer.BatchSize)
		}
	}
	return most
}
