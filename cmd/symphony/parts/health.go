package parts

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend"
	"github.com/symphony-serving/symphony/scheduler/server"
)

// vitals answer whether this process's parts run and may be used, beside /metrics, for whoever
// starts it again or waits for it (an orchestrator's probes, a script):
//
//	/startupz  200 once the parts have started: a backend's models are loaded
//	/healthz   200 while their loops turn; else the process is better started again
//	/readyz    200 while they may be used: a backend is admitted, a controller has its store
//
// The text says what is not so. An ingress has paths of its own (/v2/health/live, ready).
type vitals struct {
	mu    sync.Mutex // Guards parts.
	parts map[string]vital
	asked chan struct{} // holds one while a part is asked whether it is stuck
}

// vital is what is asked of one part. Both may be nil: nothing is wrong.
type vital struct{ stuck, unready func() error }

// healthWait is how long a part may take to answer whether it is stuck.
const healthWait = 3 * time.Second

func newVitals() *vitals { return &vitals{parts: map[string]vital{}, asked: make(chan struct{}, 1)} }

// watch notes a part that has started, in the place of one of the same name.
func (h *vitals) watch(name string, v vital) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parts[name] = v
}

func (h *vitals) all() map[string]vital {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.parts)
}

// errStarting is the answer before any part is there.
var errStarting = errors.New("starting: no part is there yet; a backend loads its models first")

func (h *vitals) started() error {
	if len(h.all()) == 0 {
		return errStarting
	}
	return nil
}

// ready has the first part that may not be used.
func (h *vitals) ready() error {
	if err := h.started(); err != nil {
		return err
	}
	return each(h.all(), func(v vital) func() error { return v.unready })
}

// stuck asks aside: what is stuck may hold a lock for good. One asks at a time.
func (h *vitals) stuck(wait time.Duration) error {
	late := time.NewTimer(wait)
	defer late.Stop()
	answer := make(chan error, 1)
	select {
	case h.asked <- struct{}{}:
		go func() {
			defer func() { <-h.asked }()
			answer <- each(h.all(), func(v vital) func() error { return v.stuck })
		}()
	case <-late.C:
		return fmt.Errorf("stuck: an earlier question has no answer for %v", wait)
	}
	select {
	case err := <-answer:
		return err
	case <-late.C:
		return fmt.Errorf("stuck: no answer within %v", wait)
	}
}

func each(parts map[string]vital, of func(vital) func() error) error {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if ask := of(parts[name]); ask != nil {
			if err := ask(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// serve adds the paths.
func (h *vitals) serve(mux *http.ServeMux) {
	for path, ask := range map[string]func() error{"/startupz": h.started, "/readyz": h.ready, "/healthz": func() error { return h.stuck(healthWait) }} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := ask(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ok")
		})
	}
}

// turns compares a scheduler's loops with how they were when it was asked last: one that had
// something to do then, has now, and has not turned meanwhile is stuck.
type turns struct {
	mu   sync.Mutex // Guards what follows.
	last map[string]server.LoopPulse
	at   time.Time
}

// turnsApart is how far apart two looks are at least: a machine may stand still for a while.
const turnsApart = 5 * time.Second

func (t *turns) look(now time.Time, loops map[string]server.LoopPulse) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && now.Sub(t.at) < turnsApart {
		return nil
	}
	before, since := t.last, now.Sub(t.at)
	t.last, t.at = loops, now
	for _, name := range slices.Sorted(maps.Keys(loops)) {
		was, there := before[name]
		if is := loops[name]; there && was.Waiting > 0 && is.Waiting > 0 && was.Turns == is.Turns {
			return fmt.Errorf("stuck: the %s has not turned for %v, and %d inputs wait", name, since.Round(time.Second), is.Waiting)
		}
	}
	return nil
}

// watchScheduler has a scheduler's loops looked at; of several, one after the other, the last one's.
func (p *Process) watchScheduler(s *server.Server) {
	var t turns
	p.admin.scheduler.Store(s)
	p.vitals.watch("scheduler", vital{stuck: func() error { return t.look(time.Now(), s.Pulse()) }})
}

// watchBackend: it is stuck when it does not give its locks back, which Devices takes.
func (p *Process) watchBackend(b *backend.Backend) {
	p.vitals.watch("backend", vital{stuck: func() error { b.Devices(); return nil }, unready: func() error {
		if !b.Ready() {
			return fmt.Errorf("no scheduler has admitted it: is there one at %s?", p.cfg.Backend.Scheduler)
		}
		return nil
	}})
}
