package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// pagedGroup is schedulers of which one leads, and a backend whose devices have room for some of its models.
type pagedGroup struct {
	*group
	backend string // its metrics
	config  string // its file
	names   []string
}

// newPagedGroup starts it. Of pages below 0 the pool has the memory, and is not said to be paged.
func newPagedGroup(t *testing.T, schedulers, devices, pages, models int) *pagedGroup {
	t.Helper()
	g := &pagedGroup{group: &group{cluster: &cluster{t: t}, members: make([]*process, schedulers), devices: devices, models: models, others: 2}, backend: hostPort(freePort(t))}
	g.heartbeat = "5ms" // a spare that a busy machine makes suspicious would count from 0
	for range schedulers {
		g.addresses = append(g.addresses, "tcp:"+hostPort(freePort(t)))
		g.ports = append(g.ports, hostPort(freePort(t)))
	}
	for i := range schedulers {
		g.launch(i)
	}
	g.address = strings.TrimPrefix(strings.Join(g.addresses, "+"), "tcp:")
	table, err := filepath.Abs(filepath.Join(root, "bench/zoo/zoo_v100_clockwork.csv"))
	if err != nil {
		t.Fatal(err)
	}
	memory := fmt.Sprintf("paged: {pages: %d}", pages)
	if pages < 0 {
		memory = fmt.Sprintf("memory: %dMiB", -16*pages)
	}
	g.config = write(t, "backend:\n  pools:\n  - {device_type: v100, kind: emulated, devices: %d, %s, zoo: [{csv: %q, models: [resnet50_v2], copies: %d, slo: 250ms}]}\n", devices, memory, table, models)
	g.host("b", g.backend)
	for i := range models {
		g.names = append(g.names, fmt.Sprint("resnet50_v2-", i))
	}
	g.dialWith(frontend.Options{ArenaBytes: 64 << 20}, g.names...)
	g.waitGPUs(g.names[0], devices, 20*time.Second)
	g.settled()
	return g
}

// host starts a backend.
func (g *pagedGroup) host(name, metrics string) *process {
	g.t.Helper()
	return start(g.t, name, "backend", "-c", g.config, "--scheduler", strings.Join(g.addresses, "+"), "--name", name, "--metrics", metrics)
}

// all asks each model once, so long after each other, and counts who is served and who waited for its weights. On a
// busy machine some deferred request may be late; more than a third are not.
func (g *pagedGroup) all(apart time.Duration) (served, cold int) {
	g.t.Helper()
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, name := range g.names {
		time.Sleep(apart)
		wait.Add(1)
		go func() {
			defer wait.Done()
			r, err := g.client.Infer(context.Background(), frontend.Request{Model: name, Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				g.t.Log(err)
				return
			}
			if served++; r.Cold {
				cold++
			}
		}()
	}
	wait.Wait()
	if served < len(g.names)*2/3 {
		g.t.Errorf("only %d of %d were served", served, len(g.names))
	}
	return served, cold
}

func (g *pagedGroup) loads() int {
	return int(metric(g.t, g.backend, "symphony_backend_loads_total", `result="done"`))
}

// TestPagedPool: three times as many models as two devices have room for, asked by turns: they are loaded and
// make room, answers say so, and scheduler and backend agree on what was done.
func TestPagedPool(t *testing.T) {
	beside(t)
	g := newPagedGroup(t, 2, 2, 35, 30) // five models of seven pages on each
	served, cold := g.all(60 * time.Millisecond)
	if cold < served*9/10 {
		t.Errorf("%d of the first requests of %d models were cold", cold, served)
	}
	g.all(60 * time.Millisecond)
	at := g.ports[g.leader()]
	loads, failed, unloads := metric(t, at, "symphony_loads_total"), metric(t, at, "symphony_loads_failed_total"), metric(t, at, "symphony_evictions_total")
	if int(loads-failed) != g.loads() || int(unloads) != g.loads()-10 || metric(t, at, "symphony_pages", `state="used"`) != 70 {
		t.Errorf("the scheduler counts %g loads, %g of them failed, and %g evictions, the backend %d loads, and ten models are there", loads, failed, unloads, g.loads())
	}
	t.Logf("%d of the first 30 requests were served; %g loads", served, loads)
}

// TestPoolBecomesPaged: a pool that is not said to be paged, and whose models do not fit, serves all of them all the same.
func TestPoolBecomesPaged(t *testing.T) {
	beside(t)
	g := newPagedGroup(t, 2, 2, -35, 30)
	served, cold := g.all(60 * time.Millisecond)
	at := g.ports[g.leader()]
	if used := metric(t, at, "symphony_pages"); used != 70 || cold < 11 || g.loads() < served {
		t.Errorf("%d were served, %d of them cold, by %d loads; the scheduler counts %g pages", served, cold, g.loads(), used)
	}
}

// TestPagedTakeover: the scheduler that leads is killed. The spare begins with what the devices hold: nothing is loaded
// again, and no request is cold.
func TestPagedTakeover(t *testing.T) {
	beside(t)
	const apart = 20 * time.Millisecond
	g := newPagedGroup(t, 2, 2, 70, 8) // all fit
	g.all(apart)
	before := g.loads()
	if _, cold := g.all(apart); cold > 0 || g.loads() != before || before < 8 {
		t.Errorf("%d requests are cold although all models are there; %d loads, and then %d", cold, before, g.loads())
	}
	at := g.settled()
	g.members[at].kill()
	eventually(t, 20*time.Second, "the spare leads", func() error {
		v, err := readMetric(g.ports[1-at], "symphony_scheduler_leads")
		if err == nil && v != 1 {
			err = fmt.Errorf("it does not")
		}
		return err
	})
	if _, cold := g.all(apart); cold > 0 || g.loads() != before {
		t.Errorf("%d requests are cold after the takeover; %d loads before it, then %d", cold, before, g.loads())
	}
	if used := metric(t, g.ports[1-at], "symphony_pages", `state="used"`); int(used) != 7*before {
		t.Errorf("the spare counts %g pages in use, %d loads took seven each", used, before)
	}
}

// TestPagedBackendKilled: a backend is killed while its devices load. What waits is served by the other one, whose pages are all that
// the scheduler counts; and when it is back, empty, it is loaded onto again.
func TestPagedBackendKilled(t *testing.T) {
	beside(t)
	const apart = 20 * time.Millisecond
	g := newPagedGroup(t, 2, 2, 35, 30)
	second := hostPort(freePort(t))
	at, victim := g.ports[g.leader()], g.host("c", second)
	g.waitGPUs(g.names[0], 4, 20*time.Second)
	g.all(apart)
	if n := metric(t, second, "symphony_backend_loads_total", `result="done"`); n == 0 {
		t.Fatal("nothing is loaded onto the second backend")
	}
	go func() {
		time.Sleep(time.Duration(len(g.names)) * apart / 2)
		victim.kill()
	}()
	g.all(apart) // three loads of four are under way or to come
	g.waitGPUs(g.names[0], 2, 20*time.Second)
	g.all(3 * apart)
	agree := func() error {
		for _, state := range []string{"free", "used"} {
			mine := metric(t, at, "symphony_pages", `state="`+state+`"`)
			theirs := metric(t, g.backend, "symphony_backend_pages", `state="free"`)
			if state == "used" {
				theirs = metric(t, g.backend, "symphony_backend_pages", `state="all"`) - theirs
			}
			if mine != theirs {
				return fmt.Errorf("the scheduler counts %g %s pages, the backend %g", mine, state, theirs)
			}
		}
		return nil
	}
	eventually(t, 5*time.Second, "both count the same pages", agree)
	g.host("c", second)
	g.waitGPUs(g.names[0], 4, 20*time.Second)
	g.all(apart)
	g.all(apart)
	if n := metric(t, second, "symphony_backend_loads_total", `result="done"`); n == 0 {
		t.Error("nothing is loaded onto the backend that is back")
	}
	if n := metric(t, at, "symphony_pages", `state="missing"`); n != 0 {
		t.Errorf("%g pages are missing", n)
	}
}
