package fakeverbs

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// region is registered memory. It keeps the slice that was registered: an
// address only ever becomes an index into it, so there is no pointer made of a
// number.
type region struct {
	// Immutable.
	d      *device
	mem    []byte
	base   uint64 // address of mem
	access rdma.Access
	key    uint32

	closed bool // Guarded by the fabric's lock.
}

// keyTable gives out keys: a slot's number above, and below it the generation
// of that slot, so that a key is valid again only after 256 uses of its slot.
type keyTable struct {
	slots []keySlot
	free  []int // in the order they became so: the longest unused is used first
}

type keySlot struct {
	r          *region
	generation uint8
}

// remoteKey marks an RKey: given as an LKey, it must not be found.
const remoteKey = 1 << 31

// Register makes a region. See rdma.Device.
func (d *device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	const what = "register memory"
	if err := d.usable(what); err != nil {
		return nil, err
	}
	a := d.f.c.Attr
	switch {
	case len(mem) == 0:
		return nil, d.fail(what, "it is empty", syscall.EINVAL)
	case uint64(len(mem)) > a.RegionMax:
		return nil, d.fail(what, fmt.Sprintf("%d bytes are more than %d", len(mem), a.RegionMax), syscall.EINVAL)
	case access&^(rdma.LocalWrite|rdma.RemoteWrite|rdma.RemoteRead) != 0:
		return nil, d.fail(what, fmt.Sprintf("unknown access %#x", access), syscall.EINVAL)
	case access&rdma.RemoteWrite != 0 && access&rdma.LocalWrite == 0:
		return nil, d.fail(what, "RemoteWrite needs LocalWrite", syscall.EINVAL)
	case d.nic.keys.used() >= a.Regions:
		return nil, d.fail(what, fmt.Sprintf("there are %d regions already", a.Regions), syscall.ENOMEM)
	}
	r := &region{d: d, mem: mem, base: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), access: access}
	r.key = d.nic.keys.add(r)
	d.open.Regions++
	return r, nil
}

// LKey, RKey: see rdma.Region.
func (r *region) LKey() uint32 { return r.key }
func (r *region) RKey() uint32 { return r.key | remoteKey }

// Close makes the keys stale. See rdma.Region.
func (r *region) Close() error {
	r.d.f.mu.Lock()
	defer r.d.f.mu.Unlock()
	if r.closed {
		return r.d.fail("close region", "it was closed already", syscall.EINVAL)
	}
	r.closed = true
	r.d.nic.keys.remove(r.key)
	r.d.open.Regions--
	return nil
}

// slice is the memory of n bytes at address, if all of it is of the region. The
// lock is held.
func (r *region) slice(address uint64, n uint32) ([]byte, bool) {
	at := address - r.base
	if address < r.base || at > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-at {
		return nil, false
	}
	return r.mem[at : at+uint64(n)], true
}

func (t *keyTable) used() int { return len(t.slots) - len(t.free) }

func (t *keyTable) add(r *region) uint32 {
	// A slot is used again only when many others wait to be, so that a stale key
	// stays one for long.
	const restMin = 64
	at := len(t.slots)
	if len(t.free) >= restMin {
		at, t.free = t.free[0], t.free[1:]
	} else {
		t.slots = append(t.slots, keySlot{})
	}
	t.slots[at].r = r
	t.slots[at].generation++
	return uint32(at+1)<<8 | uint32(t.slots[at].generation)
}

func (t *keyTable) remove(key uint32) {
	at := int(key>>8) - 1
	t.slots[at].r = nil
	t.free = append(t.free, at)
}

// find gives the region of a local key, or nil.
func (t *keyTable) find(key uint32) *region {
	at := int(key>>8) - 1
	if at < 0 || at >= len(t.slots) || t.slots[at].r == nil || t.slots[at].r.key != key {
		return nil
	}
	return t.slots[at].r
}

// local is the memory that an SGE of the device names, if it may be used so.
// The lock is held.
func (d *device) local(s rdma.SGE, right rdma.Access) ([]byte, bool) {
	if s.Length == 0 {
		return nil, true
	}
	r := d.nic.keys.find(s.LKey)
	if r == nil || r.d != d || r.access&right != right {
		return nil, false
	}
	return r.slice(s.Addr, s.Length)
}

// remote is the memory that a peer's work request names, if it may. The lock is
// held.
func (d *device) remote(address uint64, n, rkey uint32, right rdma.Access) ([]byte, bool) {
	if n == 0 {
		return nil, true
	}
	if rkey&remoteKey == 0 {
		return nil, false
	}
	r := d.nic.keys.find(rkey &^ remoteKey)
	if r == nil || r.d != d || r.access&right != right {
		return nil, false
	}
	return r.slice(address, n)
}
