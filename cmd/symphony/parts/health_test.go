package parts

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/scheduler/server"
)

// well is what a process's path says.
func well(t *testing.T, h *vitals, path string) (int, string) {
	t.Helper()
	mux := http.NewServeMux()
	h.serve(mux)
	s := httptest.NewServer(mux)
	defer s.Close()
	resp, err := http.Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// A backend has started when its models are loaded, and is ready when a scheduler has admitted
// it; without one it is well all the same, so that nobody starts it again for that.
func TestHealthOfABackend(t *testing.T) {
	cfg := config.Default()
	cfg.RDMA.Mode, cfg.TCP.KernelRTT, cfg.Log.Level = "never", "never", "error"
	cfg.Scheduler.Listen, cfg.Backend.Scheduler = []string{"inproc:s"}, "inproc:s"
	cfg.Backend.Pools = []config.Pool{{DeviceType: "e", Kind: "emulated", Devices: 1, Zoo: []config.Zoo{{CSV: "../../../examples/zoo/zoo_a100.csv", Models: []string{"ResNet50"}}}}}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/startupz", "/readyz"} {
		if status, text := well(t, p.vitals, path); status != 503 || !strings.Contains(text, "starting") {
			t.Errorf("before there is anything %s is %d %q", path, status, text)
		}
	}
	b, err := p.Backend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for path, want := range map[string]int{"/startupz": 200, "/healthz": 200, "/readyz": 503} {
		if status, text := well(t, p.vitals, path); status != want || want == 503 && !strings.Contains(text, "backend: no scheduler has admitted it: is there one at inproc:s?") {
			t.Errorf("without a scheduler %s is %d %q, want %d", path, status, text, want)
		}
	}
	s, err := p.Scheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, text := well(t, p.vitals, "/readyz")
		if status == 200 && text == "ok\n" {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("with a scheduler /readyz is %d %q", status, text)
		}
	}
	if status, text := well(t, p.vitals, "/healthz"); status != 200 {
		t.Errorf("/healthz is %d %q", status, text)
	}
	if loops := s.Pulse(); len(loops) != 2 {
		t.Errorf("a sub-cluster with one model loop has %v", loops)
	}
}

// A part that does not answer is stuck, for who asks meanwhile, too, and not for good.
func TestHealthOfAStuckPart(t *testing.T) {
	h := newVitals()
	free := make(chan struct{})
	h.watch("a", vital{unready: func() error { return errors.New("not yet") }})
	h.watch("b", vital{stuck: func() error { <-free; return nil }})
	if err := h.stuck(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "no answer within 10ms") {
		t.Errorf("%v", err)
	}
	if err := h.stuck(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "an earlier question") {
		t.Errorf("%v", err)
	}
	if err := h.ready(); err == nil || err.Error() != "a: not yet" {
		t.Errorf("%v", err)
	}
	close(free)
	if err := h.stuck(30 * time.Second); err != nil {
		t.Errorf("%v", err)
	}
	h.watch("b", vital{stuck: func() error { return errors.New("gone") }})
	if err := h.stuck(30 * time.Second); err == nil || err.Error() != "b: gone" {
		t.Errorf("%v", err)
	}
}

// A loop is stuck that has something to do and does not turn between two looks.
func TestHealthOfLoops(t *testing.T) {
	at := time.Unix(100, 0)
	for _, c := range []struct {
		name  string
		apart time.Duration
		was   server.LoopPulse
		is    server.LoopPulse
		stuck bool
	}{
		{"it turns", 10 * time.Second, server.LoopPulse{Turns: 1, Waiting: 3}, server.LoopPulse{Turns: 2, Waiting: 3}, false},
		{"nothing waits", 10 * time.Second, server.LoopPulse{Turns: 1}, server.LoopPulse{Turns: 1}, false},
		{"something has just come", 10 * time.Second, server.LoopPulse{Turns: 1}, server.LoopPulse{Turns: 1, Waiting: 1}, false},
		{"it does not turn", 10 * time.Second, server.LoopPulse{Turns: 1, Waiting: 3}, server.LoopPulse{Turns: 1, Waiting: 4}, true},
		{"too early to tell", time.Second, server.LoopPulse{Turns: 1, Waiting: 3}, server.LoopPulse{Turns: 1, Waiting: 4}, false},
	} {
		var l turns
		if err := l.look(at, map[string]server.LoopPulse{"rank loop": c.was}); err != nil {
			t.Errorf("%s: the first look: %v", c.name, err)
		}
		err := l.look(at.Add(c.apart), map[string]server.LoopPulse{"rank loop": c.is, "new": {Waiting: 1}})
		if (err != nil) != c.stuck || c.stuck && !strings.Contains(err.Error(), "the rank loop has not turned for 10s, and 4 inputs wait") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
