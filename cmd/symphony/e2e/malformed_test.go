package e2e

import (
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/frontend/ingress/malformed"
)

// TestMalformedRequests fires the table of bad requests at a real server, each
// on a connection of its own, while good traffic over HTTP loses nothing.
func TestMalformedRequests(t *testing.T) {
	beside(t)
	scheduler, http := hostPort(freePort(t)), hostPort(freePort(t))
	repo := emulatedRepository(t, emulated{"m", 0.5, 2, "200ms"})
	pool := "{device_type: emulated, kind: emulated, devices: 2}"
	start(t, "serve", "serve", "-c", write(t, serveYAML, scheduler, http, repo, pool), "--set", "frontend.body_max=8MiB",
		"--set", "frontend.header_time=1s", "--set", "frontend.body_time=2s")
	waitReady(t, http, "m")
	cases := malformed.Cases(malformed.Target{Model: "m", Input: "input", Output: "output", Shape: []int64{8}, Batch: true, BodyMax: 8 << 20})
	if len(cases) < 30 {
		t.Fatalf("only %d cases", len(cases))
	}
	machine := watch(t)
	done := make(chan report.Report, 1)
	go func() {
		defer close(done) // bench may end the goroutine with Fatal
		done <- bench(t, "--url", "http://"+http, "--rate", "200", "--warmup", "500ms", "--duration", "8s", "--margin", "20ms")
	}()
	time.Sleep(time.Second)
	var wait sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, c := range cases {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			if err := malformed.Fire(http, c, 20*time.Second); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}()
	}
	wait.Wait()
	r := <-done
	onceEach(t, r)
	// A pause of the machine makes requests late; nothing else may befall them.
	late := r.All.Bad["late"] + r.All.Bad["expired"] + r.All.Bad["deadline"]
	if r.All.Served+late != r.All.Answered || float64(late) > float64(r.All.Answered)*(tolerance(0.02, 0)+machine.pardon(t, 200*time.Millisecond)) {
		t.Errorf("good traffic beside %d bad requests: %d of %d served; %v", len(cases), r.All.Served, r.All.Answered, r.All.Bad)
	}
	t.Logf("%d malformed requests, each with its answer; %d good ones served beside", len(cases), r.All.Served)
}
