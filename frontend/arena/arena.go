// Package arena is the frontend's memory for inputs: slabs of fixed sizes
// outside the Go heap, where backends READ them. The collector does not see
// it, it does not move, and RDMA can register it.
//
// # Invariants
//
//  1. A slab is free, or belongs to one request. Its handle carries the
//     generation of that life; Free moves the generation on at once, so that a
//     READ with an old handle is refused (transport.ErrStale), never served.
//  2. The bytes of a pinned slab stay as they are: a slab freed while pinned is
//     used again only after its last Unpin.
//  3. Memory is bounded by the arena's size. Full is an answer (ErrFull).
//  4. Beside each slab lies a header (wire.SlabHeader) that says whose input it holds;
//     it is written when the request is known and cleared, by Free, before the bytes
//     may change. Who READs the slab one-sided, past Pin, READs the header after.
//  5. Close takes nobody's bytes away: memory is unmapped when the last slab is
//     freed and unpinned, whoever is still writing or reading then.
//
// Handle 0 is no slab's: generations begin at 1.
//
// Sizes are powers of four from 1 KiB to 16 MiB. Memory goes to a size by the chunk and
// comes back when the chunk is empty (chunks.go): so no size keeps what another needs.
package arena

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ErrFull: no slab of the wanted size is left.
var ErrFull = errors.New("arena is full")

// ErrTooLarge: no slab of this arena will ever hold the input.
var ErrTooLarge = errors.New("input is larger than the arena's largest slab")

// ErrClosed: the arena gives no slabs any more.
var ErrClosed = errors.New("arena is closed")

const (
	smallest = 1 << 10
	classes  = 8
	// Largest is the largest input that a slab holds.
	Largest = smallest << (2 * (classes - 1))
)

// slab is one piece of the arena: the one at smallest times its index. A chunk's slabs
// change their size with it, so that a slab may begin where the inside of another was;
// its generation stays and moves on, and handles stay unique.
type slab struct {
	request    wire.RequestID
	generation uint32 // 0: this index has not been used
	length     uint32
	pins       int32
	next       uint32 // its chunk's next slab that was given back, + 1
	used       bool
	freed      bool // freed while pinned
}

// Arena is a bounded set of slabs; safe for concurrent use.
type Arena struct {
	mapper  transport.Mapper
	mapped  []byte // headers, then slabs; nil once unmapped
	headers int    // how many there is room for
	memory  []byte // the slabs' part
	table   []byte // where slabs lies: outside the Go heap, and taken only as it is written

	mu     sync.Mutex // Guards what follows, and the end of the above.
	slabs  []slab     // by offset / smallest
	chunks chunks
	used   int // slabs in use
	held   int // slabs in use, or freed and still pinned
	shut   bool
}

// New maps an arena of size bytes (rounded up to a whole chunk), and the headers
// of as many slabs as that can be. m: where the memory comes from; nil: mmap.
func New(size int64, m transport.Mapper) (*Arena, error) {
	size = (size + chunkSize - 1) / chunkSize * chunkSize
	if m == nil {
		m = pages{}
	}
	headers := int(size / smallest)
	front := (headers*wire.SlabHeaderSize + frontUnit - 1) / frontUnit * frontUnit
	mapped, err := m.Map(front + int(size))
	if err != nil {
		return nil, fmt.Errorf("arena of %d bytes: %w", size, err)
	}
	table, err := pages{}.Map(headers * int(unsafe.Sizeof(slab{})))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("arena of %d bytes: its table: %w", size, err), m.Unmap(mapped))
	}
	a := &Arena{mapper: m, mapped: mapped, headers: headers, memory: mapped[front:], table: table,
		slabs: unsafe.Slice((*slab)(unsafe.Pointer(unsafe.SliceData(table))), headers)}
	a.chunks.init(int(size / chunkSize))
	return a, nil
}

// frontUnit keeps slabs aligned to pages.
const frontUnit = 4 << 10

// Memory implements transport.RemoteSlabs.
func (a *Arena) Memory() ([]byte, int) { return a.mapped, a.headers }

// Close ends the giving of slabs, and unmaps the memory once none is held: now,
// or with the last Free or Unpin.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shut = true
	return a.unmap()
}

// unmap ends the memory if the arena is closed and nobody holds a slab. Caller
// holds mu.
func (a *Arena) unmap() error {
	if !a.shut || a.held > 0 || a.mapped == nil {
		return nil
	}
	m := a.mapped
	a.mapped, a.memory, a.slabs = nil, nil, nil
	return errors.Join(a.mapper.Unmap(m), pages{}.Unmap(a.table))
}

// Used is the number of slabs in use.
func (a *Arena) Used() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// classOf is the smallest class that holds n bytes.
func classOf(n int) int {
	c := 0
	for smallest<<(2*c) < n {
		c++
	}
	return c
}

// SlabSize is how much of an arena an input of n bytes takes, at most Largest.
func SlabSize(n int) int { return smallest << (2 * classOf(min(n, Largest))) }

// Alloc takes a slab for n bytes. The bytes may hold an earlier input's.
func (a *Arena) Alloc(n int) (wire.SlabHandle, []byte, error) {
	if n > Largest {
		return 0, nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, n, Largest)
	}
	class := classOf(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.shut {
		return 0, nil, ErrClosed
	}
	if size := smallest << (2 * class); size > len(a.memory) {
		return 0, nil, fmt.Errorf("%w: %d bytes need a slab of %d, the whole arena has %d", ErrTooLarge, n, size, len(a.memory))
	}
	i, ok := a.chunks.take(class, a.slabs)
	if !ok {
		return 0, nil, ErrFull
	}
	s := &a.slabs[i]
	s.generation = max(s.generation, 1)
	s.used, s.request, s.length = true, 0, uint32(n)
	a.used++
	a.held++
	return wire.MakeSlabHandle(i, s.generation), a.bytes(i), nil
}

func (a *Arena) bytes(i uint32) []byte {
	from := int(i) * smallest
	to := from + int(a.slabs[i].length)
	return a.memory[from:to:to]
}

// Bytes are what the slab holds; nil: the handle is stale.
func (a *Arena) Bytes(h wire.SlabHandle) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.find(h) == nil {
		return nil
	}
	return a.bytes(h.Index())
}

// SetRequest says whose input the slab holds; before that, no READ is served.
func (a *Arena) SetRequest(h wire.SlabHandle, r wire.RequestID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.find(h); s != nil {
		s.request = r
		a.writeHeader(h.Index(), s)
	}
}

// Free ends the slab's life. A stale handle is ignored.
func (a *Arena) Free(h wire.SlabHandle) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.find(h)
	if s == nil {
		return
	}
	s.used = false
	a.clearHeader(h.Index())
	if s.generation++; s.generation == 0 {
		s.generation = 1
	}
	a.used--
	if s.pins > 0 {
		s.freed = true
		return
	}
	a.release(h.Index())
}

// release makes a slab that nobody holds free. Caller holds mu.
func (a *Arena) release(i uint32) {
	a.slabs[i].freed = false
	a.chunks.give(i, a.slabs)
	a.held--
	_ = a.unmap() // an address that was mapped can be unmapped
}

// find is the slab if the handle's life is its present one.
func (a *Arena) find(h wire.SlabHandle) *slab {
	i := int(h.Index())
	if i >= len(a.slabs) || !a.slabs[i].used || a.slabs[i].generation != h.Generation() {
		return nil
	}
	return &a.slabs[i]
}

// Pin implements transport.SlabSource.
func (a *Arena) Pin(ref wire.SlabRef, r wire.RequestID) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.find(ref.Handle)
	if s == nil || r == 0 || s.request != r || s.length != ref.Length {
		return nil, transport.ErrStale
	}
	s.pins++
	return a.bytes(ref.Handle.Index()), nil
}

// Unpin implements transport.SlabSource.
func (a *Arena) Unpin(ref wire.SlabRef) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := ref.Handle.Index()
	if int(i) >= len(a.slabs) {
		return
	}
	s := &a.slabs[i]
	s.pins--
	if s.pins == 0 && s.freed {
		a.release(i)
	}
}
