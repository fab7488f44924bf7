//go:build cgo

package onnx

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// niceness of the executing threads: the loops that must be on time win.
const niceness = 5

// Device executes batches of its sessions on a thread of its own.
type Device struct {
	intake
	done     chan struct{}
	thread   atomic.Int64
	sessions []*Session // by slot; nil: no model is there. Guarded by the intake's mu
}

// errNoModel ends a batch of a slot that is empty.
var errNoModel = errors.New("the device has no model in this slot")

// NewDevice starts the thread. The device owns the sessions.
func NewDevice(sessions []*Session) *Device {
	d := &Device{sessions: slices.Clone(sessions), intake: intake{batches: make(chan *executor.Batch, 1)}, done: make(chan struct{})}
	go d.run()
	return d
}

// Load puts a session, which is the device's from now on, into a slot.
func (d *Device) Load(slot int, s *Session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	for len(d.sessions) <= slot {
		d.sessions = append(d.sessions, nil)
	}
	d.sessions[slot] = s
	return nil
}

// Unload takes the slot's session out, for its caller to close; nil: there is none. Nothing of
// the slot is under way.
func (d *Device) Unload(slot int) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || slot >= len(d.sessions) {
		return nil
	}
	s := d.sessions[slot]
	d.sessions[slot] = nil
	return s
}

// Session is a slot's; nil: there is none.
func (d *Device) Session(slot int) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slot < 0 || slot >= len(d.sessions) {
		return nil
	}
	return d.sessions[slot]
}

// Stop ends the thread and leaves the sessions open, to be given to another
// device; a running batch is finished.
func (d *Device) Stop() {
	d.mu.Lock()
	d.closed = true
	close(d.batches)
	d.mu.Unlock()
	<-d.done
}

// Close implements executor.Device: Stop, and the sessions are unloaded.
func (d *Device) Close() {
	d.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		if s != nil {
			s.Close()
		}
	}
	d.sessions = nil
}

// Thread is the kernel's number of the thread that executes; 0: it has not begun.
func (d *Device) Thread() int { return int(d.thread.Load()) }

func (d *Device) run() {
	defer close(d.done)
	// The thread keeps its niceness and ends with the goroutine.
	runtime.LockOSThread()
	d.thread.Store(int64(unix.Gettid()))
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
	for b := range d.batches {
		start := mono.Now()
		err := errNoModel
		if s := d.Session(b.Model); s != nil {
			err = s.Run(b)
		}
		b.Finish(start, mono.Now(), err)
	}
}
