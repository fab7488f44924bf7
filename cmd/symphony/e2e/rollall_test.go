package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// rollout is a whole cluster whose processes are stopped and started again one by one.
type rollout struct {
	*group
	controller *process
	frontends  []*process
	http       []string // of frontends
	restarts   []outage
}

// outage is from when a process was told to end until its successor was in use.
type outage struct{ from, to time.Time }

// TestRollingRestart: every process of a cluster is restarted under load, one after the other, twice:
// schedulers (the leader hands over), backends, frontends, the controller. No request is lost, and
// hardly any is bad.
func TestRollingRestart(t *testing.T) {
	beside(t)
	rate, rounds := 200.0, 1
	if full() {
		rate, rounds = 2000, 2
	}
	r := startRollout(t)
	f := r.trafficOf(rate, "m", "n")
	web := r.browse(rate / 10)
	time.Sleep(time.Second)
	machine := watch(t)
	began := time.Now()
	for range rounds {
		r.all()
	}
	time.Sleep(time.Second)
	f.stop(t)
	web.stop()
	asked, bad, beside := f.outside(r.restarts, 100*time.Millisecond)
	t.Logf("%d restarts in %v: of %d requests away from them %d were bad, within 100 ms of them %v; over HTTP %d of %d",
		len(r.restarts), time.Since(began).Round(time.Second), asked, bad, beside, web.bad.Load(), web.asked.Load())
	if most := 0.001*float64(asked) + rate*machine.lost(t, 250*time.Millisecond); float64(bad) > most {
		t.Errorf("%d are bad away from restarts, %.0f may be", bad, most)
	}
	if web.bad.Load() > 0 {
		t.Errorf("HTTP: %v", web.first.Load())
	}
	for _, reason := range []string{"unavailable", "unknown_model", "cancelled"} {
		if n := f.between(time.Time{}, time.Now())[reason]; n > 0 {
			t.Errorf("%d requests were answered %s", n, reason)
		}
	}
}

func startRollout(t *testing.T) *rollout {
	t.Helper()
	r := &rollout{group: newGroup(t, 3, 3, 2, emulated{"m", 1, 5, "250ms"}, emulated{"n", 1, 5, "250ms"}), frontends: make([]*process, 2)}
	for range r.frontends {
		r.http = append(r.http, hostPort(freePort(t)))
	}
	for i := range r.frontends {
		r.launchFrontend(i)
	}
	r.others += len(r.frontends)
	r.launchController(filepath.Join(t.TempDir(), "state"), hostPort(freePort(t)))
	r.settled()
	return r
}

func (r *rollout) launchFrontend(i int) {
	r.frontends[i] = start(r.t, fmt.Sprint("frontend-", i), "frontend", "--scheduler", strings.Join(r.addresses, "+"), "--http", r.http[i])
	waitReady(r.t, r.http[i], "m", "n")
}

func (r *rollout) launchController(data, http string) {
	r.controller = start(r.t, "controller", "controller", "--scheduler", strings.Join(r.addresses, "+"), "--http", http, "--data", data)
	eventually(r.t, 20*time.Second, "the controller answers", func() error {
		if code, body, err := get("http://" + http + "/v1/models"); code != 200 {
			return fmt.Errorf("%d %s %v", code, body, err)
		}
		return nil
	})
}

// restart ends a process as an orchestrator does, starts it again, and waits until it is in use.
func (r *rollout) restart(p *process, again func()) {
	r.t.Helper()
	s := outage{from: time.Now()}
	if code := p.end(syscall.SIGTERM); code != 0 {
		r.t.Errorf("%s ended with status %d", p.name, code)
	}
	again()
	r.settled()
	r.waitGPUs("m", len(r.backends)*r.devices, 20*time.Second)
	s.to = time.Now()
	r.restarts = append(r.restarts, s)
	time.Sleep(250 * time.Millisecond)
}

// all restarts everything once: spares first, and the leader last of the schedulers.
func (r *rollout) all() {
	first := r.leader()
	order := []int{}
	for i := range r.members {
		if i != first {
			order = append(order, i)
		}
	}
	for _, i := range append(order, first) {
		r.restart(r.members[i], func() { r.launch(i) })
	}
	for i := range r.backends {
		r.restart(r.backends[i], func() { r.launchBackend(i) })
	}
	for i := range r.frontends {
		r.restart(r.frontends[i], func() { r.launchFrontend(i) })
	}
	args := r.controller.cmd.Args
	data, http := args[slices.Index(args, "--data")+1], args[slices.Index(args, "--http")+1]
	r.restart(r.controller, func() { r.launchController(data, http) })
}

// outside counts what was asked away from restarts, and what of it was bad; and what was bad within
// a margin of one: of its begin, and of its end.
func (f *traffic) outside(restarts []outage, margin time.Duration) (asked, bad int, beside map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	beside = map[string]int{}
	for _, o := range f.answers {
		at := o.Intended.Std()
		near := slices.ContainsFunc(restarts, func(s outage) bool {
			return at.Sub(s.from).Abs() < margin || at.Sub(s.to).Abs() < margin
		})
		switch {
		case near && o.Answer.Reason != "":
			beside[o.Answer.Reason]++
		case near:
		default:
			asked++
			if o.Answer.Reason != "" && o.Answer.Reason != "generator_late" {
				bad++
			}
		}
	}
	return asked, bad, beside
}

// browser asks over HTTP, one frontend after the other; what one refuses, or leaves without an answer
// since it ends, it asks the other, as a load balancer does.
type browser struct {
	asked, bad atomic.Int64
	first      atomic.Value // what was bad
	end        chan struct{}
	done       sync.WaitGroup
}

func (r *rollout) browse(rate float64) *browser {
	b := &browser{end: make(chan struct{})}
	client := &http.Client{Timeout: 5 * time.Second}
	ask := func(at string) error {
		resp, err := client.Post("http://"+at+"/v2/models/m/infer", "application/json", bytes.NewReader([]byte(oneInput)))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != 200 {
			err = fmt.Errorf("%d %s", resp.StatusCode, body)
		}
		return err
	}
	b.done.Go(func() {
		tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-b.end:
				return
			case <-tick.C:
			}
			b.done.Go(func() {
				b.asked.Add(1)
				err := ask(r.http[i%len(r.http)])
				if err != nil {
					err = ask(r.http[(i+1)%len(r.http)])
				}
				if err != nil {
					b.bad.Add(1)
					b.first.CompareAndSwap(nil, err.Error())
				}
			})
		}
	})
	return b
}

func (b *browser) stop() {
	close(b.end)
	b.done.Wait()
}
