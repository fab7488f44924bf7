//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

// #include "shim.h"
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"github.com/symphony-serving/symphony/backend/cuda"
)

func unsafePointer[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

func start(m []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m))) }

func (c *context) Alloc(bytes int64) (cuda.Ptr, error) {
	if err := c.ready("allocating memory"); err != nil {
		return 0, err
	}
	if bytes <= 0 {
		return 0, fmt.Errorf("allocating %d bytes of device memory", bytes)
	}
	p, err := cu.MemAlloc(bytes)
	if err := c.did(fmt.Sprintf("allocating %d bytes", bytes), codeOf(err)); err != nil {
		return 0, err
	}
	c.allocations.Add(1)
	return cuda.Ptr(p), nil
}

func (c *context) Free(p cuda.Ptr) error {
	if c.closed.Load() {
		return c.wrap("freeing memory", errClosed)
	}
	if p == 0 { // the driver would take it
		return c.wrap("freeing memory", errors.New("no address"))
	}
	return c.gone("freeing memory", codeOf(cu.MemFree(cu.DevicePtr(p))), &c.allocations)
}

// HostAlloc maps memory, near the device, and registers it: memory of the driver's own
// would go with a lost context, under the hands of who writes into it.
func (c *context) HostAlloc(bytes int) ([]byte, error) {
	if err := c.ready("pinning memory"); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return nil, fmt.Errorf("allocating %d bytes of pinned memory", bytes)
	}
	m, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("%w: mapping %d bytes of the host: %w", cuda.ErrMemory, bytes, err)
	}
	C.sc_prefer_node(unsafe.Pointer(&m[0]), C.size_t(bytes), C.int(c.info.NUMANode))
	if err := c.HostRegister(m); err != nil {
		_ = unix.Munmap(m) // the reason is known
		return nil, err
	}
	return m, nil
}

// HostFree leaves memory mapped that a lost device still holds, until its context has
// ended: at the same address new memory could not be pinned.
func (c *context) HostFree(m []byte) error {
	err := c.HostUnregister(m)
	switch {
	case errors.Is(err, cuda.ErrLost):
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.p.orphans = append(c.p.orphans, m)
		return err
	case err != nil:
		return err
	}
	if errUnmap := unix.Munmap(m); errUnmap != nil {
		return c.wrap("giving back pinned memory (is it what HostAlloc gave?)", errUnmap)
	}
	return err
}

func (c *context) HostRegister(m []byte) error {
	if err := c.ready("pinning memory"); err != nil {
		return err
	}
	if len(m) == 0 {
		return errors.New("registering no memory")
	}
	if !c.l.pinned.add(m) {
		return c.wrap(fmt.Sprintf("pinning %d bytes of the host", len(m)), cuda.ErrRegistered)
	}
	code := int(C.sc_host_register(unsafe.Pointer(&m[0]), C.size_t(len(m))))
	if err := c.did(fmt.Sprintf("pinning %d bytes of the host", len(m)), code); err != nil {
		c.l.pinned.remove(m)
		return err
	}
	c.pinned.Add(1)
	return nil
}

func (c *context) HostUnregister(m []byte) error {
	if c.closed.Load() {
		return c.wrap("unpinning memory", errClosed)
	}
	if !c.l.pinned.remove(m) {
		return c.wrap("unpinning memory", errors.New("it is not pinned as such a piece"))
	}
	return c.gone("unpinning memory", int(C.sc_host_unregister(unsafe.Pointer(&m[0]))), &c.pinned)
}

// pins are the process's pieces of pinned memory. Copies look without a lock.
type pins struct {
	mu  sync.Mutex // Held by who changes all.
	all atomic.Pointer[[]piece]
}

type piece struct{ from, to uintptr }

func (p *pins) list() []piece {
	if l := p.all.Load(); l != nil {
		return *l
	}
	return nil
}

// find gives the first piece that ends behind an address.
func find(l []piece, at uintptr) int {
	i, _ := slices.BinarySearchFunc(l, at, func(p piece, at uintptr) int {
		if p.to <= at {
			return -1
		}
		return 1
	})
	return i
}

// add reports false if some of the memory is pinned already.
func (p *pins) add(m []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.list()
	n := piece{start(m), start(m) + uintptr(len(m))}
	i := find(l, n.from)
	if i < len(l) && cmp.Less(l[i].from, n.to) {
		return false
	}
	l = slices.Insert(slices.Clone(l), i, n)
	p.all.Store(&l)
	return true
}

// remove reports false if no such piece is pinned.
func (p *pins) remove(m []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.list()
	i := find(l, start(m))
	if len(m) == 0 || i == len(l) || l[i] != (piece{start(m), start(m) + uintptr(len(m))}) {
		return false
	}
	l = slices.Delete(slices.Clone(l), i, i+1)
	p.all.Store(&l)
	return true
}

// holds reports whether the memory lies whole in a piece.
func (p *pins) holds(m []byte) bool {
	l := p.list()
	i := find(l, start(m))
	return i < len(l) && l[i].from <= start(m) && start(m)+uintptr(len(m)) <= l[i].to
}
