//go:build cgo

package onnx

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// niceness of the executing threads: the loops that must be on time win.
const niceness = 5

// Device executes batches of its sessions on a thread of its own.
type Device struct {
	sessions []*Session
	batches  chan *executor.Batch
	done     chan struct{}

	mu     sync.Mutex // Guards closed against Launch.
	closed bool
}

// errClosed ends a batch that came after Close.
var errClosed = errors.New("the device is closed")

// NewDevice starts the thread. The device owns the sessions.
func NewDevice(sessions []*Session) *Device {
	d := &Device{sessions: sessions, batches: make(chan *executor.Batch, 1), done: make(chan struct{})}
	go d.run()
	return d
}

// Launch implements executor.Device.
func (d *Device) Launch(b *executor.Batch) {
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.batches <- b // there is room: one batch at a time
	}
	d.mu.Unlock()
	if closed {
		now := mono.Now()
		b.Finish(now, now, errClosed)
	}
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
	for _, s := range d.sessions {
		s.Close()
	}
}

func (d *Device) run() {
	defer close(d.done)
	// The thread keeps its niceness and ends with the goroutine.
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness)
	for b := range d.batches {
		start := mono.Now()
		err := d.sessions[b.Model].Run(b)
		b.Finish(start, mono.Now(), err)
	}
}
