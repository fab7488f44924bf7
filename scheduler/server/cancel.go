package server

import (
	"errors"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// onCancel takes a request out of wherever it waits: at the door, or in its engine. What is in a batch
// goes on: its output finds nobody.
func (f *frontend) onCancel(l transport.Link, body []byte) {
	var m wire.Cancel
	if err := m.Decode(body, l.Shift()); err != nil || !f.admitted.Load() {
		l.Close(errors.Join(transport.ErrProtocol, err))
		return
	}
	s := f.server
	if s.held != nil && s.held.waiting.Load() > 0 && s.held.cancel(f, m.Request) || s.door.waiting.Load() > 0 && s.door.cancel(f, m.Request) {
		s.metrics.drop(wire.ReasonCancelled)
		return
	}
	routes := *s.routes.Load()
	if int(m.Model) < len(routes) && routes[m.Model].engine != nil {
		routes[m.Model].engine.Cancel(m.Model, &batching.Request{ID: m.Request, Frontend: f.id, Model: m.Model, Deadline: m.Deadline})
	}
}

// cancel lets go what is held for a batch that runs.
func (h *held) cancel(f *frontend, id wire.RequestID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.requests[heldRequest{f.instance, id}]
	if b == nil {
		return false
	}
	n := len(b.waiting)
	b.waiting = letGo(b.waiting, f, id)
	h.waiting.Add(int64(len(b.waiting) - n))
	return len(b.waiting) < n
}

// cancel lets go what waits for a pool's first GPU.
func (d *door) cancel(f *frontend, id wire.RequestID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, waiting := range d.of {
		n := len(waiting)
		if waiting = letGo(waiting, f, id); len(waiting) == n {
			continue
		}
		if d.of[p] = waiting; len(waiting) == 0 {
			delete(d.of, p)
		}
		d.waiting.Add(int64(len(waiting) - n))
		return true
	}
	return false
}

func letGo(waiting []heldSubmit, f *frontend, id wire.RequestID) []heldSubmit {
	return slices.DeleteFunc(waiting, func(w heldSubmit) bool { return w.from == f && w.submit.Request == id })
}
