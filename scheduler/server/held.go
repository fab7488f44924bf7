package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/members"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// held are the batches that run for the leader before this one, and the requests of theirs that
// frontends have sent again. Such a request is held at the door: if its output comes first it is
// answered by that, and running it twice would be for nothing. It goes to its engine if its batch is
// overdue, or its backend lost.
//
//	Running  the batch is known
//	Submit   of one of its requests: held
//	Done     the batch and what is held are forgotten: each output, or why there is none, was sent
//	overdue, backend lost   what is held goes to the engine
//
// The request path looks at one counter where nothing runs, which is nearly always.
type held struct {
	past    *Past        // Immutable.
	batches atomic.Int64 // that are known
	waiting atomic.Int64 // requests that are held

	mu       sync.Mutex // Guards what follows.
	closed   bool
	of       map[heldKey]*heldBatch
	requests map[heldRequest]*heldBatch
}

// heldKey is a batch of another reign's.
type heldKey struct {
	conn  members.Conn // of the backend
	epoch wire.Epoch
	batch wire.BatchID
}

// heldRequest is a request, whoever's link it comes over.
type heldRequest struct {
	instance uint64
	request  wire.RequestID
}

type heldBatch struct {
	pool, device uint32
	until        mono.Time
	items        []wire.RunningItem
	waiting      []heldSubmit
	overdue      *time.Timer
}

type heldSubmit struct {
	from   *frontend
	submit wire.Submit
}

const (
	// heldMost bounds the batches that are known: two for each of many GPUs. Of more the requests
	// are run again, and the first output counts.
	heldMost = 1 << 14
	// heldGrace is how late a batch may be.
	heldGrace = 10 * mono.Millisecond
)

func newHeld(past *Past) *held {
	return &held{past: past, of: map[heldKey]*heldBatch{}, requests: map[heldRequest]*heldBatch{}}
}

// runs notes a batch that a backend goes on with; release gets what is held if it is overdue.
func (h *held) runs(now mono.Time, conn members.Conn, m *wire.Running, release func([]heldSubmit)) {
	key := heldKey{conn, m.Epoch, m.Batch}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.of[key] != nil || len(h.of) >= heldMost {
		return
	}
	b := &heldBatch{pool: m.Pool, device: m.Device, until: m.Until, items: append([]wire.RunningItem(nil), m.Items...)}
	b.overdue = time.AfterFunc(max(0, m.Until.Sub(now)+heldGrace).Std(), func() { release(h.end(key)) })
	h.of[key] = b
	for _, it := range b.items {
		h.requests[heldRequest{it.Instance, it.Request}] = b
	}
	h.batches.Add(1)
}

// take holds a request of a batch that runs; false: it is of none.
func (h *held) take(f *frontend, m *wire.Submit) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.requests[heldRequest{f.instance, m.Request}]
	if b == nil || len(b.waiting) >= len(b.items) {
		return false
	}
	b.waiting = append(b.waiting, heldSubmit{f, *m})
	h.waiting.Add(1)
	h.past.held.Add(1)
	return true
}

// end forgets a batch, and returns what was held.
func (h *held) end(key heldKey) []heldSubmit {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.endLocked(key)
}

func (h *held) endLocked(key heldKey) []heldSubmit {
	b := h.of[key]
	if b == nil {
		return nil
	}
	b.overdue.Stop()
	delete(h.of, key)
	for _, it := range b.items {
		if at := (heldRequest{it.Instance, it.Request}); h.requests[at] == b {
			delete(h.requests, at)
		}
	}
	h.batches.Add(-1)
	h.waiting.Add(-int64(len(b.waiting)))
	return b.waiting
}

// lost forgets a backend's batches, and returns what was held.
func (h *held) lost(conn members.Conn) (all []heldSubmit) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key := range h.of {
		if key.conn == conn {
			all = append(all, h.endLocked(key)...)
		}
	}
	return all
}

// until is when a device is free of them.
func (h *held) until(conn members.Conn, pool, device int) (at mono.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, b := range h.of {
		if key.conn == conn && int(b.pool) == pool && int(b.device) == device {
			at = max(at, b.until)
		}
	}
	return at
}

// close forgets all: this scheduler answers nobody any more.
func (h *held) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for key := range h.of {
		h.endLocked(key)
	}
}

// release hands what was held to the engines after all.
func (s *Server) release(all []heldSubmit) {
	for i := range all {
		w := &all[i]
		if reason := s.hand(w.from, &w.submit); reason != wire.ReasonNone {
			s.metrics.drop(reason)
			s.send(w.from.link, (&wire.Answer{Request: w.submit.Request, Reason: reason}).Append(nil))
		}
	}
}

// hand gives a request to its model's engine, or says why not.
func (s *Server) hand(from *frontend, m *wire.Submit) wire.Reason {
	routes := *s.routes.Load()
	switch {
	case s.draining.Load():
		return wire.ReasonDraining
	case int(m.Model) >= len(routes):
		return wire.ReasonUnknownModel
	case routes[m.Model].engine == nil: // it was, a moment ago
		return wire.ReasonUnavailable
	}
	if p := routes[m.Model].pool; p.alive.Load() == 0 {
		if !s.awaits(p) || m.Deadline <= mono.Now() {
			return wire.ReasonUnavailable
		}
		if reason, ok := s.door.keeps(p, from, m); ok {
			return reason
		}
	}
	if s.group != nil && !s.busy.Load() {
		s.busy.Store(true)
	}
	routes[m.Model].count.came.Add(1)
	r := batching.Request{ID: m.Request, Frontend: from.id, Model: m.Model, Arrival: m.Arrival, Deadline: m.Deadline, Input: m.Input, Priority: m.Priority, Class: m.Class, Suspicion: m.Suspicion}
	if !routes[m.Model].engine.Submit(m.Model, &r) {
		routes[m.Model].count.drop(m.Class, wire.ReasonFull)
		return wire.ReasonFull
	}
	return wire.ReasonNone
}

// send sends a frontend a frame about its requests.
func (s *Server) send(l transport.Link, frame []byte) {
	if !s.mute.Load() {
		s.mustHear(l, frame)
	}
}
