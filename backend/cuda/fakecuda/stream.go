package fakecuda

import (
	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// stream is work in order, done by a goroutine of its own (execute.go).
type stream struct {
	c      *context
	g      *GPU
	handle uintptr
	ended  chan struct{} // the goroutine has

	// Guarded by g.mu.
	queue        []work // queue[head:] waits
	head         int
	queued, done uint64    // how much was ever; a number is work's place
	at           mono.Time // the device's time up to which it has come
	now          []span    // what it is at work on
	closed       bool
}

// work is what a stream has to do.
type work struct {
	kind   kind
	place  uint64
	queued mono.Time

	// A copy's.
	host []byte
	dev  [1]span
	pin  *pinned

	// Of Record and Wait: the mark at the place upTo of a stream.
	event *event
	of    *stream
	upTo  uint64

	run *binding // a kernel's
}

type kind uint8

const (
	doCopyIn kind = iota
	doCopyOut
	doRecord
	doWait
	doRun
)

// spans are the device memory that work needs.
func (w *work) spans() []span {
	switch w.kind {
	case doCopyIn, doCopyOut:
		return w.dev[:]
	case doRun:
		return w.run.spans
	}
	return nil
}

// begin begins a call that queues something.
func (s *stream) begin(what string) error {
	if err := s.c.begin(what); err != nil {
		return err
	}
	if s.closed {
		s.g.mu.Unlock()
		return s.g.d.misuse("%s of a closed stream", what)
	}
	return nil
}

func (s *stream) CopyIn(to cuda.Ptr, from []byte) error { return s.copy(doCopyIn, "CopyIn", to, from) }
func (s *stream) CopyOut(to []byte, from cuda.Ptr) error {
	return s.copy(doCopyOut, "CopyOut", from, to)
}

func (s *stream) copy(k kind, what string, at cuda.Ptr, host []byte) error {
	if err := s.begin(what); err != nil {
		return err
	}
	defer s.g.mu.Unlock()
	if len(host) == 0 {
		return nil
	}
	dev, err := s.c.p.span(at, len(host), k == doCopyIn)
	if err != nil {
		return err
	}
	pin := s.g.d.use(host)
	s.push(work{kind: k, host: host, dev: [1]span{dev}, pin: pin})
	if pin != nil {
		return nil
	}
	s.g.stats.Unpinned++
	return s.await(s, s.queued)
}

func (s *stream) Record(e cuda.Event) error {
	ev, err := s.beginEvent("Record", e)
	if err != nil {
		return err
	}
	defer s.g.mu.Unlock()
	s.push(work{kind: doRecord, event: ev})
	ev.of, ev.upTo = s, s.queued
	return nil
}

func (s *stream) Wait(e cuda.Event) error {
	ev, err := s.beginEvent("Wait", e)
	if err != nil {
		return err
	}
	defer s.g.mu.Unlock()
	if ev.of != nil && ev.of != s {
		s.push(work{kind: doWait, event: ev, of: ev.of, upTo: ev.upTo})
	}
	return nil
}

// beginEvent begins a call with an event.
func (s *stream) beginEvent(what string, e cuda.Event) (*event, error) {
	if err := s.begin(what); err != nil {
		return nil, err
	}
	ev, ok := e.(*event)
	if !ok || ev.c.p != s.c.p || ev.closed {
		s.g.mu.Unlock()
		return nil, s.g.d.misuse("%s with an event that is closed, or not of this device", what)
	}
	return ev, nil
}

func (s *stream) Synchronize() error {
	if err := s.begin("Synchronize"); err != nil {
		return err
	}
	defer s.g.mu.Unlock()
	return s.await(s, s.queued)
}

// await waits until a stream's work up to a place is done. The lock is held.
func (s *stream) await(of *stream, place uint64) error {
	return s.c.p.await(of, place)
}

func (p *primary) await(of *stream, place uint64) error {
	for of.done < place && p.lost == nil {
		p.g.cond.Wait()
	}
	return p.lost
}

// EndCapture has nothing to end: nothing captures here.
func (s *stream) EndCapture() error {
	if err := s.begin("EndCapture"); err != nil {
		return err
	}
	s.g.mu.Unlock()
	return nil
}

func (s *stream) Handle() uintptr { return s.handle }

// Close lets what is queued go on, as CUDA does.
func (s *stream) Close() error {
	if err := s.c.beginClose("Close of a stream"); err != nil {
		return err
	}
	if s.closed {
		s.g.mu.Unlock()
		return s.g.d.misuse("Close of a closed stream")
	}
	s.closed = true
	s.c.open.Streams--
	idle, lost := s.done == s.queued, s.c.p.lost
	s.g.cond.Broadcast()
	s.g.mu.Unlock()
	if idle {
		<-s.ended
	}
	return lost
}

// push queues work. The lock is held.
func (s *stream) push(w work) {
	s.queued++
	w.place, w.queued = s.queued, mono.Now()
	for _, m := range w.spans() {
		m.b.uses++
	}
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	} else if s.head > 1024 { // never empty: move to the front, now and then
		s.queue, s.head = s.queue[:copy(s.queue, s.queue[s.head:])], 0
	}
	s.queue = append(s.queue, w)
	s.g.cond.Broadcast()
}

// event is a mark: the place of the last Record in its stream.
type event struct {
	c *context

	// Guarded by the GPU's lock.
	of     *stream // nil: never recorded
	upTo   uint64
	at     mono.Time // the device's time of that mark, once it is reached
	closed bool
}

func (e *event) begin(what string) error {
	if err := e.c.begin(what); err != nil {
		return err
	}
	if e.closed {
		e.c.g.mu.Unlock()
		return e.c.d.misuse("%s of a closed event", what)
	}
	return nil
}

func (e *event) reached() bool { return e.of == nil || e.of.done >= e.upTo }

func (e *event) Done() (bool, error) {
	if err := e.begin("Done"); err != nil {
		return false, err
	}
	defer e.c.g.mu.Unlock()
	return e.reached(), nil
}

func (e *event) Synchronize() error {
	if err := e.begin("Synchronize"); err != nil {
		return err
	}
	defer e.c.g.mu.Unlock()
	if e.of == nil {
		return nil
	}
	return e.c.p.await(e.of, e.upTo)
}

func (e *event) Since(earlier cuda.Event) (mono.Dur, error) {
	if err := e.begin("Since"); err != nil {
		return 0, err
	}
	defer e.c.g.mu.Unlock()
	from, ok := earlier.(*event)
	switch {
	case !ok || from.c.p != e.c.p || from.closed:
		return 0, e.c.d.misuse("Since an event that is closed, or not of this device")
	case e.of == nil || from.of == nil:
		return 0, e.c.d.misuse("Since with an event that was never recorded")
	case !e.reached() || !from.reached():
		return 0, e.c.d.misuse("Since with an event whose mark is not reached")
	}
	return e.at.Sub(from.at), nil
}

func (e *event) Close() error {
	if err := e.c.beginClose("Close of an event"); err != nil {
		return err
	}
	defer e.c.g.mu.Unlock()
	if e.closed {
		return e.c.d.misuse("Close of a closed event")
	}
	e.closed = true
	e.c.open.Events--
	return e.c.p.lost
}
