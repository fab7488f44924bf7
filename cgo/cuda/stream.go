//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "shim.h"
import "C"

import (
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/mono"
)

// cu.Event is a CUevent and nothing else: shim.c gets at it through this.
var _ [unsafe.Sizeof(cu.Event{})]byte = [unsafe.Sizeof(C.CUevent(nil))]byte{}

// stream is a CUstream that waits for no other, the legacy default stream included.
type stream struct {
	c      *context
	s      cu.Stream
	closed atomic.Bool
}

// NewStream makes a stream of the highest priority, or of the lowest, which is the default.
func (c *context) NewStream(urgent bool) (cuda.Stream, error) {
	if err := c.ready("making a stream"); err != nil {
		return nil, err
	}
	least, greatest, err := cu.StreamPriorityRange()
	if err := c.did("stream priorities", codeOf(err)); err != nil {
		return nil, err
	}
	priority := least
	if urgent {
		priority = greatest
	}
	s, err := cu.MakeStreamWithPriority(priority, cu.NonBlocking)
	if err := c.did("making a stream", codeOf(err)); err != nil {
		return nil, err
	}
	c.streams.Add(1)
	return &stream{c: c, s: s}, nil
}

func (s *stream) ready(what string) error {
	if s.closed.Load() {
		return s.c.wrap(what, errClosed)
	}
	return s.c.ready(what)
}

func (s *stream) CopyIn(to cuda.Ptr, from []byte) error {
	if err := s.ready("copying in"); err != nil || len(from) == 0 {
		return err
	}
	err := cu.MemcpyHtoDAsync(cu.DevicePtr(to), unsafe.Pointer(&from[0]), int64(len(from)), s.s)
	return s.copied("copying in", err, from)
}

func (s *stream) CopyOut(to []byte, from cuda.Ptr) error {
	if err := s.ready("copying out"); err != nil || len(to) == 0 {
		return err
	}
	err := cu.MemcpyDtoHAsync(unsafe.Pointer(&to[0]), cu.DevicePtr(from), int64(len(to)), s.s)
	return s.copied("copying out", err, to)
}

// copied waits where the memory is not pinned. The driver alone does so on most machines,
// but where the device reaches pageable memory itself it need not, and Go may use it anew.
func (s *stream) copied(what string, err error, host []byte) error {
	if err != nil {
		return s.c.did(what, codeOf(err))
	}
	if s.c.l.pinned.holds(host) {
		return nil
	}
	defer runtime.KeepAlive(host) // who copies in may not hold it any longer
	return s.Synchronize()
}

func (s *stream) Record(e cuda.Event) error {
	ev, err := s.event("recording an event", e)
	if err != nil {
		return err
	}
	if err := ev.e.Record(s.s); err != nil {
		return s.c.did("recording an event", codeOf(err))
	}
	return nil
}

func (s *stream) Wait(e cuda.Event) error {
	ev, err := s.event("waiting for an event", e)
	if err != nil {
		return err
	}
	if err := s.s.Wait(ev.e, 0); err != nil {
		return s.c.did("waiting for an event", codeOf(err))
	}
	return nil
}

var errEvent = errors.New("the event is closed, or of another driver")

func (s *stream) event(what string, e cuda.Event) (*event, error) {
	if err := s.ready(what); err != nil {
		return nil, err
	}
	ev, ok := e.(*event)
	if !ok || ev.closed.Load() {
		return nil, s.c.wrap(what, errEvent)
	}
	return ev, nil
}

func (s *stream) Synchronize() error {
	if err := s.ready("waiting for a stream"); err != nil {
		return err
	}
	if err := s.s.Synchronize(); err != nil {
		return s.c.did("waiting for a stream", codeOf(err))
	}
	return nil
}

func (s *stream) EndCapture() error {
	if err := s.ready("ending a capture"); err != nil {
		return err
	}
	return s.c.did("ending a capture", int(C.sc_end_capture((C.CUstream)(unsafe.Pointer(s.s.C())))))
}

func (s *stream) Handle() uintptr { return uintptr(unsafe.Pointer(s.s.C())) }

// Close lets what is queued go on.
func (s *stream) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return s.c.wrap("closing a stream", errClosed)
	}
	return s.c.gone("closing a stream", codeOf(s.s.Destroy()), &s.c.streams)
}

// event is a CUevent with a time, whose waiter sleeps.
type event struct {
	c      *context
	e      cu.Event
	closed atomic.Bool
}

func (c *context) NewEvent() (cuda.Event, error) {
	if err := c.ready("making an event"); err != nil {
		return nil, err
	}
	e, err := cu.MakeEvent(cu.BlockingSyncEvent)
	if err := c.did("making an event", codeOf(err)); err != nil {
		return nil, err
	}
	c.events.Add(1)
	return &event{c: c, e: e}, nil
}

// raw is the CUevent: gorgonia.org/cu keeps it to itself.
func (e *event) raw() C.CUevent { return *(*C.CUevent)(unsafe.Pointer(&e.e)) }

func (e *event) ready(what string) error {
	if e.closed.Load() {
		return e.c.wrap(what, errClosed)
	}
	return e.c.ready(what)
}

func (e *event) Done() (bool, error) {
	if err := e.ready("asking for an event"); err != nil {
		return false, err
	}
	code := int(C.sc_event_query(e.raw()))
	if code == C.CUDA_ERROR_NOT_READY {
		return false, nil
	}
	return code == C.CUDA_SUCCESS, e.c.did("asking for an event", code)
}

func (e *event) Synchronize() error {
	if err := e.ready("waiting for an event"); err != nil {
		return err
	}
	if err := e.e.Synchronize(); err != nil {
		return e.c.did("waiting for an event", codeOf(err))
	}
	return nil
}

func (e *event) Since(earlier cuda.Event) (mono.Dur, error) {
	if err := e.ready("the time between events"); err != nil {
		return 0, err
	}
	from, ok := earlier.(*event)
	if !ok || from.closed.Load() {
		return 0, e.c.wrap("the time between events", errEvent)
	}
	r := C.sc_event_elapsed(from.raw(), e.raw())
	if r.code != C.CUDA_SUCCESS {
		return 0, e.c.did("the time between events", int(r.code))
	}
	return mono.FromMillis(float64(r.ms)), nil
}

func (e *event) Close() error {
	if !e.closed.CompareAndSwap(false, true) {
		return e.c.wrap("closing an event", errClosed)
	}
	return e.c.gone("closing an event", codeOf(cu.DestroyEvent(&e.e)), &e.c.events)
}
