package fakecuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/symphony-serving/symphony/backend/cuda"
)

const (
	grain    = 512     // what device memory is given in, bytes
	pageSize = 4096    // of the host
	nonsense = 0xA5    // what new device memory is full of
	dirtyMax = 1 << 20 // that much of it: more would cost tests time
	hostMax  = 1 << 38 // of pinned memory in one piece: no host here has more
)

// block is an allocation of a device. The GPU's lock guards it; its bytes belong to the
// stream that is at work on them.
type block struct {
	c    *context
	at   cuda.Ptr
	mem  []byte
	uses int // of queued work
}

// span is a piece of a block that work reads or writes.
type span struct {
	b        *block
	from, to int
	write    bool
}

func (s span) overlaps(t span) bool { return s.b == t.b && s.from < t.to && t.from < s.to }

func (c *context) Alloc(bytes int64) (cuda.Ptr, error) {
	if err := c.begin("Alloc"); err != nil {
		return 0, err
	}
	defer c.g.mu.Unlock()
	b, err := c.alloc(bytes)
	if err != nil {
		return 0, err
	}
	return b.at, nil
}

// alloc is Alloc with the lock held.
func (c *context) alloc(bytes int64) (*block, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("allocating %d bytes of device memory", bytes)
	}
	g, size := c.g, (bytes+grain-1)/grain*grain
	if g.failAllocs > 0 || bytes > g.info.Memory || size > g.info.Memory-g.used {
		g.failAllocs = max(0, g.failAllocs-1)
		return nil, fmt.Errorf("%w: GPU %d: %d bytes wanted, %d of %d free", cuda.ErrMemory, g.info.Index, bytes, max(0, g.info.Memory-g.used), g.info.Memory)
	}
	b := &block{c: c, at: g.next, mem: make([]byte, bytes)}
	for i := range b.mem[:min(len(b.mem), dirtyMax)] {
		b.mem[i] = nonsense
	}
	// A gap, so that one byte too many hits nothing.
	g.next += cuda.Ptr(size + grain)
	g.used += size
	c.open.Allocations++
	c.open.Bytes += size
	c.p.blocks = append(c.p.blocks, b) // addresses only rise: it stays sorted
	return b, nil
}

func (c *context) Free(at cuda.Ptr) error {
	if err := c.beginClose("Free"); err != nil {
		return err
	}
	defer c.g.mu.Unlock()
	b := c.p.find(at, 1)
	switch {
	case b == nil || b.at != at:
		return c.d.misuse("Free of %#x, which is no allocation of GPU %d (freed before?)", at, c.g.info.Index)
	case b.uses > 0 && c.p.lost == nil:
		return c.d.misuse("Free of %#x while queued work uses it", at)
	}
	c.p.free(b)
	return c.p.lost
}

// free gives a block back. The lock is held.
func (p *primary) free(b *block) {
	p.blocks = slices.DeleteFunc(p.blocks, func(other *block) bool { return other == b })
	size := (int64(len(b.mem)) + grain - 1) / grain * grain
	p.g.used -= size
	b.c.open.Allocations--
	b.c.open.Bytes -= size
}

// find gives the block in which n bytes from an address lie whole, or nil.
func (p *primary) find(at cuda.Ptr, n int) *block {
	i, exact := slices.BinarySearchFunc(p.blocks, at, func(b *block, at cuda.Ptr) int { return cmp.Compare(b.at, at) })
	if !exact {
		i--
	}
	if i < 0 || uint64(at-p.blocks[i].at)+uint64(n) > uint64(len(p.blocks[i].mem)) {
		return nil
	}
	return p.blocks[i]
}

// span gives the piece of memory at an address. The lock is held.
func (p *primary) span(at cuda.Ptr, n int, write bool) (span, error) {
	b := p.find(at, n)
	if b == nil {
		return span{}, p.g.d.misuse("%d bytes at %#x are in no allocation of GPU %d", n, at, p.g.info.Index)
	}
	from := int(at - b.at)
	return span{b: b, from: from, to: from + n, write: write}, nil
}

// pinned is memory of the host that devices reach. Driver.mu guards the list; mem is
// immutable.
type pinned struct {
	by        *context
	mem       []byte
	allocated bool         // by HostAlloc; else registered
	uses      atomic.Int64 // of queued copies
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

func (c *context) HostAlloc(bytes int) ([]byte, error) {
	if err := c.begin("HostAlloc"); err != nil {
		return nil, err
	}
	defer c.g.mu.Unlock()
	if bytes <= 0 {
		return nil, fmt.Errorf("allocating %d bytes of pinned memory", bytes)
	}
	if bytes > hostMax {
		return nil, fmt.Errorf("%w: %d bytes of pinned memory", cuda.ErrMemory, bytes)
	}
	raw := make([]byte, bytes+pageSize)
	skip := int(-address(raw) & (pageSize - 1))
	mem := raw[skip : skip+bytes : skip+bytes]
	if err := c.d.pin(&pinned{by: c, mem: mem, allocated: true}); err != nil {
		return nil, err
	}
	return mem, nil
}

func (c *context) HostRegister(mem []byte) error {
	if err := c.begin("HostRegister"); err != nil {
		return err
	}
	defer c.g.mu.Unlock()
	if len(mem) == 0 {
		return errors.New("registering no memory")
	}
	return c.d.pin(&pinned{by: c, mem: mem})
}

func (c *context) HostFree(mem []byte) error       { return c.unpin("HostFree", mem, true) }
func (c *context) HostUnregister(mem []byte) error { return c.unpin("HostUnregister", mem, false) }

func (c *context) unpin(what string, mem []byte, allocated bool) error {
	if err := c.beginClose(what); err != nil {
		return err
	}
	defer c.g.mu.Unlock()
	if err := c.d.unpin(what, mem, allocated, c.p.lost != nil); err != nil {
		return err
	}
	return c.p.lost
}

// pin adds a piece to what is pinned.
func (d *Driver) pin(p *pinned) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failHost > 0 {
		d.failHost--
		return fmt.Errorf("%w: pinning %d bytes of the host", cuda.ErrMemory, len(p.mem))
	}
	i := d.search(p.mem)
	if i < len(d.pinned) && address(d.pinned[i].mem) < address(p.mem)+uintptr(len(p.mem)) {
		return fmt.Errorf("%w: %d bytes at %#x", cuda.ErrRegistered, len(p.mem), address(p.mem))
	}
	d.pinned = slices.Insert(d.pinned, i, p)
	return nil
}

func (d *Driver) unpin(what string, mem []byte, allocated, lost bool) error {
	d.mu.Lock()
	i := d.search(mem)
	var why string
	switch {
	case i == len(d.pinned) || len(mem) == 0 || address(d.pinned[i].mem) != address(mem) || len(d.pinned[i].mem) != len(mem):
		why = "is not pinned as such a piece"
	case d.pinned[i].allocated != allocated:
		why = "was pinned the other way"
	case d.pinned[i].uses.Load() > 0 && !lost:
		why = "is used by a queued copy"
	default:
		d.pinned = slices.Delete(d.pinned, i, i+1)
	}
	d.mu.Unlock()
	if why != "" {
		return d.misuse("%s: the memory %s", what, why)
	}
	return nil
}

// search gives the first piece that ends behind the beginning of mem. The lock is held.
func (d *Driver) search(mem []byte) int {
	at := address(mem)
	i, _ := slices.BinarySearchFunc(d.pinned, at, func(p *pinned, at uintptr) int {
		if address(p.mem)+uintptr(len(p.mem)) <= at {
			return -1
		}
		return 1
	})
	return i
}

// use finds the piece in which mem lies whole and counts a use; nil: it is not pinned.
func (d *Driver) use(mem []byte) *pinned {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := d.search(mem)
	if i == len(d.pinned) {
		return nil
	}
	p := d.pinned[i]
	if at := address(mem); at < address(p.mem) || at+uintptr(len(mem)) > address(p.mem)+uintptr(len(p.mem)) {
		return nil
	}
	p.uses.Add(1)
	return p
}

// pinnedBy counts what a context has pinned.
func (d *Driver) pinnedBy(c *context) (n int, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pinned {
		if p.by == c {
			n++
			bytes += int64(len(p.mem))
		}
	}
	return n, bytes
}
