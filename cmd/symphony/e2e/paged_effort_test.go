package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// effort asks a model once without a deadline, by the Go client.
func (g *pagedGroup) effort(name string) error {
	_, err := g.client.Infer(context.Background(), frontend.Request{Model: name, Class: wire.ClassBestEffort, Timeout: 30 * time.Second,
		Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}})
	return err
}

// effortHTTP does so over HTTP.
func effortHTTP(at, name string) error {
	body := `{"parameters":{"class":"best_effort","timeout":30000000},"inputs":[{"name":"input","shape":[1,8],"datatype":"FP32","data":[1,2,3,4,5,6,7,8]}]}`
	r, err := http.Post("http://"+at+"/v2/models/"+name+"/infer", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", r.StatusCode, text)
	}
	return nil
}

// TestPagedBestEffort: clients over HTTP and by the Go library ask without deadlines for more models than a device has room for, and nobody
// else asks: the models are loaded for them, by turns, and each request has its output. Then one with a deadline is served.
func TestPagedBestEffort(t *testing.T) {
	beside(t)
	const models = 5
	g := newPagedGroup(t, 2, 1, 14, models) // two of seven pages
	web := hostPort(freePort(t))
	start(t, "frontend", "frontend", "--scheduler", strings.Join(g.addresses, "+"), "--http", web)
	waitReady(t, web, g.names...)
	var clients sync.WaitGroup
	for i, name := range g.names {
		for k := range 4 {
			clients.Go(func() {
				for range 5 {
					ask := func() error { return g.effort(name) }
					if (i+k)%2 == 0 {
						ask = func() error { return effortHTTP(web, name) }
					}
					if err := ask(); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
	}
	clients.Wait()
	at := g.ports[g.leader()]
	loads, others := metric(t, at, "symphony_loads_total", `why="best_effort"`), metric(t, at, "symphony_loads_total", `why="cold"`)+metric(t, at, "symphony_loads_total", `why="copy"`)
	if loads < models || others > 0 || metric(t, at, "symphony_pages", `state="used"`) != 14 {
		t.Errorf("%g loads for best effort and %g others, want %d or more and none", loads, others, models)
	}
	if _, err := g.client.Infer(context.Background(), frontend.Request{Model: g.names[0], Inputs: []frontend.Tensor{{Name: "input", Type: catalog.FP32, Shape: []int64{8}, Data: make([]byte, 32)}}}); err != nil {
		t.Errorf("with a deadline: %v", err)
	}
	t.Logf("%g loads", loads)
}

// TestPagedBestEffortTakeover: the scheduler that leads is killed while requests without deadlines wait for loads and run. The spare has them
// loaded and served, also for models that no device held then: each request has its output.
func TestPagedBestEffortTakeover(t *testing.T) {
	beside(t)
	g := newPagedGroup(t, 2, 1, 14, 4) // two of four fit
	leader := g.leader()
	var all sync.WaitGroup
	first := make(chan struct{})
	var once sync.Once
	killed := make(chan struct{})
	for _, name := range g.names {
		for range 6 {
			all.Go(func() {
				for after := 0; after < 3; { // each model is asked when the other scheduler leads, too
					if err := g.effort(name); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					once.Do(func() { close(first) })
					select {
					case <-killed:
						after++
					default:
					}
				}
			})
		}
	}
	<-first
	time.Sleep(300 * time.Millisecond)
	g.members[leader].kill()
	close(killed)
	all.Wait()
	at := g.ports[1-leader]
	if leads, loads := metric(t, at, "symphony_scheduler_leads"), metric(t, at, "symphony_loads_total", `why="best_effort"`); leads != 1 || loads < 2 {
		t.Errorf("the spare leads: %g, and ordered %g loads for best effort, want 2 or more", leads, loads)
	}
}
