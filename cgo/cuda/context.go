//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "shim.h"
import "C"

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// primary is what all that have opened a device share: library.mu guards what is not atomic.
type primary struct {
	holders int
	orphans [][]byte              // memory that was given back to a lost device
	lost    atomic.Pointer[error] // why nothing can be done with it; nil: it lives
}

// context is a hold on a device's primary context.
type context struct {
	// Immutable.
	l    *library
	p    *primary
	dev  cu.Device
	ctx  cu.CUContext
	info cuda.Info

	// Shared: what is open of it.
	streams, events, allocations, pinned atomic.Int64
	closed                               atomic.Bool
}

// Open retains the primary context and sees whether it works: a lost device's may still be
// there, held by other libraries of this process.
func (l *library) Open(index int) (cuda.Context, error) {
	if err := load(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("counting CUDA devices: %w", failure(codeOf(err)))
	}
	if index < 0 || index >= n {
		return nil, fmt.Errorf("no CUDA device %d: this process may use %d (CUDA_VISIBLE_DEVICES)", index, n)
	}
	c := &context{l: l, dev: cu.Device(index)}
	if c.info, err = info(index); err != nil {
		return nil, err
	}
	if c.dev, err = cu.GetDevice(index); err != nil {
		return nil, fmt.Errorf("CUDA device %d: %w", index, failure(codeOf(err)))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c.p = l.primaries[index]
	if c.p == nil {
		c.p = &primary{}
	} else if lost := c.p.lost.Load(); lost != nil {
		return nil, *lost
	}
	if c.ctx, err = c.dev.RetainPrimaryCtx(); err != nil {
		return nil, fmt.Errorf("opening CUDA device %d: %w%s", index, failure(codeOf(err)), hintOpen(codeOf(err)))
	}
	if err := cuda.On(c, func() error { _, _, err := c.Memory(); return err }); err != nil {
		_ = c.dev.ReleasePrimaryCtx() // the reason is known
		return nil, fmt.Errorf("opening CUDA device %d: %w; if it was lost in this process before, only a new process may get it back", index, err)
	}
	c.p.holders++
	l.primaries[index] = c.p
	return c, nil
}

// hintOpen says what usually stands behind the errors of opening.
func hintOpen(code int) string {
	switch code {
	case 46, 101: // CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_INVALID_DEVICE
		return " (does another process have it for itself? nvidia-smi -q -d COMPUTE says the mode)"
	case 2: // CUDA_ERROR_OUT_OF_MEMORY
		return " (other processes have all its memory: nvidia-smi shows them)"
	}
	return ""
}

func (c *context) Info() cuda.Info { return c.info }

// Enter makes the context the thread's, of a lost device, too: what was made of it must be
// closed, whatever the driver says.
func (c *context) Enter() error {
	if c.closed.Load() {
		return c.wrap("entering it", errClosed)
	}
	err := cu.SetCurrentContext(c.ctx)
	if c.p.lost.Load() != nil {
		return nil
	}
	if err == nil {
		return c.did("entering it", int(C.sc_relax()))
	}
	return c.did("entering it", codeOf(err))
}

// ready is what each call asks first.
func (c *context) ready(what string) error {
	if c.closed.Load() {
		return c.wrap(what, errClosed)
	}
	if lost := c.p.lost.Load(); lost != nil {
		return *lost
	}
	return nil
}

// did is a call's result as an error. The first deadly one stays.
func (c *context) did(what string, code int) error {
	if code == 0 {
		return nil
	}
	err := c.wrap(what, failure(code))
	if deadly(code) {
		c.p.lost.CompareAndSwap(nil, &err)
	}
	return err
}

func (c *context) wrap(what string, err error) error {
	return fmt.Errorf("GPU %d (%s): %s: %w", c.info.Index, c.info.UUID, what, err)
}

// gone is the end of something: on a lost device it is gone, whatever the driver says.
func (c *context) gone(what string, code int, open *atomic.Int64) error {
	if code == 0 || deadly(code) || c.p.lost.Load() != nil {
		open.Add(-1)
	}
	return c.did(what, code)
}

func (c *context) Memory() (free, total int64, err error) {
	if err := c.ready("its memory"); err != nil {
		return 0, 0, err
	}
	free, total, err = cu.MemInfo()
	return free, total, c.did("its memory", codeOf(err))
}

// Close releases the primary context. If nobody else holds it, the driver ends it, and the
// next Open makes a new one.
func (c *context) Close() error {
	if c.closed.Load() {
		return c.wrap("closing it", errClosed)
	}
	if s, e, a, p := c.streams.Load(), c.events.Load(), c.allocations.Load(), c.pinned.Load(); s+e+a+p != 0 {
		return fmt.Errorf("GPU %d: closing it: %d streams, %d events, %d allocations and %d pieces of pinned memory are open: close them first", c.info.Index, s, e, a, p)
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if !c.closed.CompareAndSwap(false, true) {
		return c.wrap("closing it", errClosed)
	}
	c.p.holders--
	code := codeOf(c.dev.ReleasePrimaryCtx())
	if c.p.holders == 0 {
		delete(c.l.primaries, c.info.Index)
		c.bury()
	}
	if c.p.lost.Load() != nil {
		return nil // it was told
	}
	return c.did("closing it", code)
}

// bury unmaps what a lost device held, if its context has ended with the last hold. If
// another library of this process keeps it, the memory stays where it is.
func (c *context) bury() {
	_, active, err := c.dev.PrimaryCtxState()
	if err != nil || active != 0 {
		return
	}
	for _, m := range c.p.orphans {
		_ = unix.Munmap(m) // mapped by us, or it would not have been pinned
	}
	c.p.orphans = nil
}
