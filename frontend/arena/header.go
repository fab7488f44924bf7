package arena

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport/wire"
)

// word is half of slab i's header (wire.SlabHeader): 0 the request, 1 generation and
// length. A device may read it at any time, so it is written in whole words, in an
// order in which no mixture passes for a header: the request last, and gone first.
func (a *Arena) word(i uint32, half int) *uint64 {
	return (*uint64)(unsafe.Pointer(&a.mapped[int(i)*wire.SlabHeaderSize+8*half]))
}

// writeHeader says whose input the slab holds. Caller holds mu.
func (a *Arena) writeHeader(i uint32, s *slab) {
	atomic.StoreUint64(a.word(i, 0), 0)
	atomic.StoreUint64(a.word(i, 1), uint64(s.generation)|uint64(s.length)<<32)
	atomic.StoreUint64(a.word(i, 0), uint64(s.request))
}

// clearHeader says that the slab is nobody's. Caller holds mu.
func (a *Arena) clearHeader(i uint32) { atomic.StoreUint64(a.word(i, 0), 0) }

// pages is the Mapper of those who have no device.
type pages struct{}

// Map implements transport.Mapper.
func (pages) Map(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// Unmap implements transport.Mapper.
func (pages) Unmap(m []byte) error { return unix.Munmap(m) }
