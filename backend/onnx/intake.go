//go:build cgo

package onnx

import (
	"errors"
	"sync"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// intake hands batches to a thread that runs them, one at a time, until it is closed.
type intake struct {
	batches chan *executor.Batch // with room for one

	mu     sync.Mutex // Guards what follows.
	closed bool
}

// errClosed ends a batch that came after Close.
var errClosed = errors.New("the device is closed")

// Launch implements executor.Device.
func (d *intake) Launch(b *executor.Batch) {
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
