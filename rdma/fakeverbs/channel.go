package fakeverbs

import (
	"syscall"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// channel wakes who waits for completions.
type channel struct {
	d    *device       // Immutable.
	bell chan struct{} // holds at most one ring: look again

	// Guarded by the fabric's lock.
	events int // that CQs have sent and no Wait has taken
	woken  bool
	cqs    int // that send here
	closed bool
}

// NewChannel makes a channel. See rdma.Device.
func (d *device) NewChannel() (rdma.Channel, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if err := d.usable("make channel"); err != nil {
		return nil, err
	}
	d.open.Channels++
	return &channel{d: d, bell: make(chan struct{}, 1)}, nil
}

// Wait sleeps until an event, a Wake, or timeout; one that is not positive has
// passed already. Several events, and a Wake that came with them, end one Wait.
// See rdma.Channel.
func (c *channel) Wait(timeout mono.Dur) (bool, error) {
	event, over, err := c.look()
	if over || timeout <= 0 {
		return event, err
	}
	timer := time.NewTimer(timeout.Std())
	defer timer.Stop()
	for {
		select {
		case <-c.bell:
			if event, over, err := c.look(); over {
				return event, err
			}
		case <-timer.C:
			event, _, err := c.look()
			return event, err
		}
	}
}

// look takes what has come; over: a Wait ends with it.
func (c *channel) look() (event, over bool, err error) {
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	if c.closed {
		return false, true, c.d.fail("wait", "the channel was closed", syscall.EINVAL)
	}
	event, over = c.events > 0, c.events > 0 || c.woken
	c.events, c.woken = 0, false
	return event, over, nil
}

// Wake ends a Wait. See rdma.Channel.
func (c *channel) Wake() {
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	c.woken = true
	c.ring()
}

// ring makes the present Wait look again. The lock is held.
func (c *channel) ring() {
	select {
	case c.bell <- struct{}{}:
	default: // it rings already
	}
}

// Close ends the channel, and a Wait with an error. See rdma.Channel.
func (c *channel) Close() error {
	c.d.f.mu.Lock()
	defer c.d.f.mu.Unlock()
	switch {
	case c.closed:
		return c.d.fail("close channel", "it was closed already", syscall.EINVAL)
	case c.cqs > 0:
		return c.d.fail("close channel", "CQs still use it", syscall.EBUSY)
	}
	c.closed = true
	c.d.open.Channels--
	c.ring()
	return nil
}
