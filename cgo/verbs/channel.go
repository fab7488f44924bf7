//go:build rdma && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// channel is a completion channel and, beside it, an eventfd by which Wake ends a
// Wait: both sleep in one ppoll.
type channel struct {
	d    *device
	ch   *C.struct_ibv_comp_channel
	wake int // eventfd

	cqs     atomic.Int64 // Shared: open CQs whose events come here.
	closing atomic.Bool  // Shared: Close waits for a Wait to end.
	guard   guard
}

// NewChannel makes a channel.
func (d *device) NewChannel() (rdma.Channel, error) {
	if !d.guard.enter() {
		return nil, d.wrap("completion channel", errClosed)
	}
	defer d.guard.leave()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, d.wrap("completion channel: eventfd", err)
	}
	ch, errno := C.sv_create_channel(d.ctx)
	if ch == nil {
		unix.Close(fd)
		return nil, d.wrap("completion channel", errno)
	}
	if err := failure(C.sv_nonblocking(ch.fd)); err != nil {
		C.sv_destroy_channel(ch)
		unix.Close(fd)
		return nil, d.wrap("completion channel", err)
	}
	d.channels.Add(1)
	return &channel{d: d, ch: ch, wake: fd}, nil
}

// Wait sleeps in C: the runtime takes the P away from the thread meanwhile.
func (c *channel) Wait(timeout mono.Dur) (bool, error) {
	if !c.guard.enter() {
		return false, c.d.wrap("waiting for completions", errClosed)
	}
	defer c.guard.leave()
	if c.closing.Load() {
		return false, c.d.wrap("waiting for completions", errClosed)
	}
	r := C.sv_wait(c.ch, C.int(c.wake), C.int64_t(timeout))
	if err := failure(r.err); err != nil {
		return r.n > 0, c.d.wrap("waiting for completions", err)
	}
	return r.n > 0, nil
}

// Wake ends the present Wait, or else the next.
func (c *channel) Wake() {
	if !c.guard.enter() {
		return
	}
	defer c.guard.leave()
	c.signal()
}

func (c *channel) signal() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	// It fails only with EAGAIN, at 2^64-2 wakes that nobody took: then it is awake.
	_, _ = unix.Write(c.wake, one[:])
}

// Close ends a Wait that is under way, and the channel.
func (c *channel) Close() error {
	if n := c.cqs.Load(); n > 0 {
		return fmt.Errorf("RDMA device %s: closing a channel: %d completion queues still use it: close them first", c.d.name, n)
	}
	c.closing.Store(true)
	c.Wake()
	return c.guard.close(func() (bool, error) {
		if err := failure(C.sv_destroy_channel(c.ch)); err != nil {
			c.closing.Store(false)
			return false, c.d.wrap("closing a channel", err)
		}
		unix.Close(c.wake)
		c.d.channels.Add(-1)
		return true, nil
	})
}
