package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/transport/mono"
)

// coldPool is a backend's: two devices with room for four of forty models each.
const coldPool = "backend:\n  pools:\n  - {device_type: v100, kind: emulated, devices: 2, paged: {pages: 28}, zoo: [{csv: %q, models: [resnet50_v1], copies: 40, slo: 250ms}]}\n"

// coldCluster is a scheduler, a frontend with HTTP, and a client of this test; start begins a life of the backend.
func coldCluster(t *testing.T) (c *cluster, names []string, http, backend string, life func() *process) {
	t.Helper()
	c = newCluster(t)
	table, err := filepath.Abs(filepath.Join(root, "bench/zoo/zoo_v100_clockwork.csv"))
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, coldPool, table)
	http, backend = hostPort(freePort(t)), hostPort(freePort(t))
	life = func() *process {
		return start(t, "b", "backend", "-c", path, "--scheduler", "tcp:"+c.address, "--name", "b", "--metrics", backend)
	}
	for i := range 40 {
		names = append(names, fmt.Sprint("resnet50_v1-", i))
	}
	return c, names, http, backend, life
}

// counts is what became of a load's requests.
type counts struct {
	served, cold atomic.Int64
	refused      sync.Map // reason -> *atomic.Int64
}

// Observe implements load.Observer.
func (n *counts) Observe(o load.Observation) {
	switch {
	case o.Answer.Reason == "" || o.Answer.Reason == "late":
		if n.served.Add(1); o.Answer.Cold {
			n.cold.Add(1)
		}
	default:
		k, _ := n.refused.LoadOrStore(o.Answer.Reason, &atomic.Int64{})
		k.(*atomic.Int64).Add(1)
	}
}

// reasons tells who got no output, and why.
func (n *counts) reasons() (text string) {
	n.refused.Range(func(why, k any) bool {
		text += fmt.Sprintf("%s %d ", why, k.(*atomic.Int64).Load())
		return true
	})
	return text
}

// TestColdBackendKilled: a backend with a paged pool is killed while it loads and runs, and comes back, empty. Every
// request has one answer, some of them cold; the models are loaded again, and scheduler and backend count the same pages.
func TestColdBackendKilled(t *testing.T) {
	beside(t)
	c, names, _, backend, life := coldCluster(t)
	first := life()
	c.dial(names...)
	gen, err := workload.New(workload.Config{Process: workload.Poisson, Rate: 200, Models: len(names), Popularity: "zipf:1.5", Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	target := &load.ClientTarget{Client: c.client}
	slos := make([]mono.Dur, len(names))
	for i, name := range names {
		e, err := c.client.Model(name, "")
		if err != nil {
			t.Fatal(err)
		}
		target.Models, slos[i] = append(target.Models, load.MakeInput(&e.Spec, 1)), 250*mono.Millisecond
	}
	n, sent, ended := &counts{}, &load.Counts{}, make(chan struct{})
	go func() {
		defer close(ended)
		load.Run(t.Context(), load.Config{SLO: slos, Duration: 8 * mono.Second, OutstandingMax: 5000, Drain: 5 * mono.Second}, target, gen, n, sent)
	}()
	eventually(t, 20*time.Second, "some are served", atLeast(&n.served, 50))
	first.kill()
	before := n.served.Load()
	life()
	eventually(t, 20*time.Second, "some are served by the backend's next life", atLeast(&n.served, before+50))
	<-ended
	if sent.Lost() != 0 || sent.Duplicates.Load() != 0 || n.cold.Load() == 0 || n.cold.Load() >= n.served.Load() {
		t.Errorf("of %d requests %d have no answer and %d two; %d were served, %d of them cold, refused: %s",
			sent.Sent.Load(), sent.Lost(), sent.Duplicates.Load(), n.served.Load(), n.cold.Load(), n.reasons())
	}
	eventually(t, 10*time.Second, "scheduler and backend count the same pages, all of them", func() error {
		free, all := metric(t, backend, "symphony_backend_pages", `state="free"`), metric(t, backend, "symphony_backend_pages", `state="all"`)
		left, used := metric(t, c.metrics, "symphony_pages", `state="free"`), metric(t, c.metrics, "symphony_pages", `state="used"`)
		if all != 56 || left != free || left+used != all || used == 0 {
			return fmt.Errorf("the backend has %g of %g pages free, the scheduler counts %g free and %g used", free, all, left, used)
		}
		return nil
	})
	t.Logf("%d requests: %d served, %d cold; refused: %s", sent.Sent.Load(), n.served.Load(), n.cold.Load(), n.reasons())
}

func atLeast(n *atomic.Int64, want int64) func() error {
	return func() error {
		if have := n.Load(); have < want {
			return fmt.Errorf("%d, want %d", have, want)
		}
		return nil
	}
}

// TestColdOverHTTP: the first request to a model is marked cold in its reply's parameters, the next one is not, and the
// metrics tell of it.
func TestColdOverHTTP(t *testing.T) {
	beside(t)
	c, names, http, _, life := coldCluster(t)
	life()
	start(t, "frontend", "frontend", "--http", http, "--listen", "tcp:"+hostPort(freePort(t)), "--scheduler", "tcp:"+c.address, "--name", "f")
	waitReady(t, http, names[0])
	marked := func(model string) (bool, error) {
		code, _, body := post(t, "http://"+http+"/v2/models/"+model+"/infer", []byte(`{"inputs":[{"name":"input","datatype":"FP32","shape":[1,8],"data":[1,2,3,4,5,6,7,8]}]}`))
		if code != 200 {
			return false, fmt.Errorf("status %d: %s", code, body)
		}
		var reply struct {
			Parameters struct {
				Cold bool `json:"cold"`
			} `json:"parameters"`
		}
		err := json.Unmarshal(body, &reply)
		return reply.Parameters.Cold, err
	}
	asked := 0 // models; what a busy machine made late is asked of the next one, for its weights may be there by then
	eventually(t, 20*time.Second, "an answer", func() error {
		cold, err := marked(names[asked])
		if asked++; err == nil && !cold {
			t.Errorf("the first answer of %s is not cold", names[asked-1])
		}
		return err
	})
	eventually(t, 20*time.Second, "another answer", func() error {
		cold, err := marked(names[asked-1])
		if err == nil && cold {
			t.Errorf("the second answer of %s is cold", names[asked-1])
		}
		return err
	})
	for _, m := range []struct {
		name, label string
		least       float64
	}{{"symphony_loads_total", `why="cold"`, 1}, {"symphony_pages", `state="used"`, 7}, {"symphony_paged_requests_total", `start="cold"`, 1}, {"symphony_paged_requests_total", `start="warm"`, 1}} {
		if v := metric(t, c.metrics, m.name, m.label); v < m.least {
			t.Errorf("%s{%s} is %g, want %g or more", m.name, m.label, v, m.least)
		}
	}
}
