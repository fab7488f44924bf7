package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
)

// TestSeveralSchedulers: two schedulers, each with a backend and models of its own, a frontend
// and a client of both: all models are answered. kill -9 of one: its models are unavailable, at
// once, and the other one's lose nothing; after its restart all is as before.
func TestSeveralSchedulers(t *testing.T) {
	beside(t)
	const slo = "3s" // no pause of a busy machine is to count for a loss
	doomed := newCluster(t, emulated{"d1", 1, 5, slo}, emulated{"d2", 1, 5, slo})
	other := newCluster(t, emulated{"o1", 1, 5, slo}, emulated{"o2", 1, 5, slo})
	doomed.backend("of-doomed", 2)
	other.backend("of-other", 2)
	both := []string{"tcp:" + doomed.address, "tcp:" + other.address}
	http := hostPort(freePort(t))
	start(t, "frontend", "frontend", "--scheduler", strings.Join(both, ","), "--http", http)
	waitReady(t, http, "d1", "d2", "o1", "o2")
	doomed.dialWith(frontend.Options{ArenaBytes: 16 << 20, Schedulers: both}, "d1", "d2", "o1", "o2")
	other.client = doomed.client
	ask := func(model string) (int, string) {
		code, header, body := post(t, "http://"+http+"/v2/models/"+model+"/infer", []byte(oneInput))
		return code, header.Get("X-Symphony-Reason") + " " + string(body)
	}
	for _, model := range []string{"d1", "d2", "o1", "o2"} {
		if code, body := ask(model); code != 200 {
			t.Fatalf("%s: %d %s", model, code, body)
		}
	}
	ofDoomed, ofOther := doomed.trafficOf(100, "d1", "d2"), other.trafficOf(200, "o1", "o2")
	time.Sleep(time.Second)
	doomed.scheduler.kill()
	eventually(t, 10*time.Second, "the frontend has heard", func() error { return linkedAs(http, both, 0, 1) })
	heard := time.Now()
	code, body := ask("d1")
	if took := time.Since(heard); code != 503 || !strings.HasPrefix(body, "unavailable ") || took > 2*time.Second {
		t.Errorf("a model of the dead scheduler after %v: %d %s", took, code, body)
	}
	for path, want := range map[string]int{"/v2/health/live": 200, "/v2/health/ready": 200, "/v2/models/d1/ready": 503, "/v2/models/o1/ready": 200, "/v2/models/d1": 200, "/v2/models/nobody": 404} {
		if code, body, err := get("http://" + http + path); code != want {
			t.Errorf("%s: %d %s %v, want %d", path, code, body, err, want)
		}
	}
	time.Sleep(time.Second)
	restarted := time.Now()
	doomed.startScheduler()
	waitReady(t, http, "d1", "d2")
	eventually(t, 10*time.Second, "both are linked", func() error { return linkedAs(http, both, 1, 1) })
	for _, model := range []string{"d1", "d2", "o1", "o2"} {
		if code, body := ask(model); code != 200 {
			t.Errorf("%s after the restart: %d %s", model, code, body)
		}
	}
	doomed.waitGPUs("d1", 2, 10*time.Second)
	ofDoomed.again(t, restarted)
	back := time.Now()
	time.Sleep(time.Second)
	ofDoomed.stop(t)
	ofOther.stop(t)
	away, after := ofDoomed.between(heard, restarted), ofDoomed.between(back, back.Add(500*time.Millisecond))
	all := ofOther.between(time.Time{}, time.Now())
	for _, m := range []map[string]int{away, after, all} {
		delete(m, "generator_late") // this process slept: nothing was sent
	}
	t.Logf("of the dead scheduler's models while it was away %v, after its return %v; of the other's, all the time, %v", away, after, all)
	if len(away) != 1 || away["unavailable"] == 0 {
		t.Errorf("while it was away its models' requests were answered %v, want unavailable", away)
	}
	if badOf(after) > 0 || after[""] == 0 {
		t.Errorf("after its return: %v", after)
	}
	if badOf(all) > 0 || all[""] == 0 {
		t.Errorf("the other scheduler's models: %v", all)
	}
}

// linkedAs says what lacks until the frontend's gauges are as wanted.
func linkedAs(http string, schedulers []string, want ...float64) error {
	for i, address := range schedulers {
		if v, err := readMetric(http, "symphony_frontend_linked", fmt.Sprintf("scheduler=%q", address)); err != nil || v != want[i] {
			return fmt.Errorf("%s: %g, want %g; %w", address, v, want[i], err)
		}
	}
	return nil
}

// again waits until requests from then on are answered: a client's link may come later than another's.
func (f *traffic) again(t *testing.T, from time.Time) {
	t.Helper()
	eventually(t, 10*time.Second, "requests are answered again", func() error {
		if n := f.between(from, time.Now())[""]; n < 10 {
			return fmt.Errorf("%d answers", n)
		}
		return nil
	})
}
