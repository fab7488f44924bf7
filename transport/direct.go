package transport

import (
	"unsafe"

	"github.com/symphony-serving/symphony/transport/pages"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Direct is a Network that can move bytes without a copy, by a device. What the
// device shall reach must lie in memory that came from here; anything else is
// moved all the same, by the slower way.
type Direct interface {
	Network
	Mapper // near the device; for slabs (see RemoteSlabs)
	// Buffers are what inputs are READ into and outputs sent from.
	Buffers() Allocator
}

// Mapper gives zeroed memory outside the Go heap, and takes it back.
type Mapper interface {
	Map(n int) ([]byte, error)
	Unmap(m []byte) error
}

// Allocator gives buffers. Safe for concurrent use.
type Allocator interface {
	// Alloc gives n bytes, whatever is in them. It never fails: where the memory
	// that the device reaches is used up it gives some of the Go heap.
	Alloc(n int) []byte
	// Free takes a buffer of Alloc back; nobody uses it any more.
	Free(b []byte)
}

// RemoteSlabs is a SlabSource whose slabs a peer may READ one-sided: all of them
// lie in one piece of memory of Direct.Map, and so do their headers.
//
// The owner of a slab writes the header when it knows the request, and clears it
// before the slab's bytes may change. So a peer that READs the bytes first and the
// header after, and finds its request in there, has got that request's bytes.
type RemoteSlabs interface {
	SlabSource
	// Memory holds headers and slabs. Slab i's header (wire.SlabHeader) lies at
	// wire.SlabHeaderSize * i, for i below headers. It stays mapped until the
	// Listener, or the link, that was given the slabs has closed.
	Memory() (memory []byte, headers int)
}

// SlabKeeper is a Listener that made the slabs it was given readable: with this
// key, which belongs into each wire.SlabRef. 0: not readable.
type SlabKeeper interface {
	SlabKey() uint32
}

// SlabKey is the listener's key, 0 where there is none.
func SlabKey(l Listener) uint32 {
	if k, ok := l.(SlabKeeper); ok {
		return k.SlabKey()
	}
	return 0
}

// SlabRef is the reference to an input, from the slab's bytes and the key of the
// listener that serves it.
func SlabRef(h wire.SlabHandle, data []byte, key uint32) wire.SlabRef {
	ref := wire.SlabRef{Handle: h, RKey: key, Length: uint32(len(data))}
	if key != 0 {
		ref.Address = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	}
	return ref
}

// Sharing is a Direct whose buffers other devices can be told of: a GPU that copies from where
// the network READs to.
type Sharing interface {
	Direct
	// PoolNear is a pool of up to max bytes near a NUMA node, known to device, too, and its
	// Allocator; nil: the network has no device itself.
	PoolNear(node int, max int64, device pages.Registrar) (Allocator, *pages.Pool)
}

// Buffers are one device's: memory that it reaches, and the network's device, if there is one.
// Where that is used up they are of the Go heap.
type Buffers struct {
	Allocator
	pool *pages.Pool
}

// BuffersFor are buffers of up to max bytes near a NUMA node (negative: anywhere) for a device.
// Close them when the network's links have closed: these may still send from there.
func BuffersFor(n Network, node int, max int64, device pages.Registrar) *Buffers {
	if s, ok := DirectOf(n).(Sharing); ok {
		if a, p := s.PoolNear(node, max, device); p != nil {
			return &Buffers{a, p}
		}
	}
	p := pages.NewPool(node, max, device)
	return &Buffers{pooled{p}, p}
}

// Bytes is how much memory is registered now.
func (b *Buffers) Bytes() int64 { return b.pool.Bytes() }

// Err is why there was no more memory the last time that there was none.
func (b *Buffers) Err() error { return b.pool.Err() }

// Close gives all of it back.
func (b *Buffers) Close() error { return b.pool.Close() }

// pooled are a pool's buffers, or the heap's where it is used up.
type pooled struct{ pool *pages.Pool }

// Alloc implements Allocator.
func (b pooled) Alloc(n int) []byte {
	if p, ok := b.pool.Alloc(n); ok {
		return p
	}
	return make([]byte, n)
}

// Free implements Allocator.
func (b pooled) Free(p []byte) {
	if b.pool.Holds(p) {
		b.pool.Free(p)
	}
}

// Heap is the Allocator of networks that have no device.
type Heap struct{}

// Alloc makes a slice.
func (Heap) Alloc(n int) []byte { return make([]byte, n) }

// Free leaves it to the collector.
func (Heap) Free([]byte) {}

// BuffersOf are n's buffers, the Go heap's where it is not Direct.
func BuffersOf(n Network) Allocator {
	if d := DirectOf(n); d != nil {
		return d.Buffers()
	}
	return Heap{}
}

// DirectOf is n, or n's network for TCP addresses, if it is Direct; else nil.
func DirectOf(n Network) Direct {
	if m, ok := n.(Mux); ok {
		n = m["tcp"]
	}
	d, _ := n.(Direct)
	return d
}
