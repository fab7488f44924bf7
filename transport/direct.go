package transport

import (
	"unsafe"

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
