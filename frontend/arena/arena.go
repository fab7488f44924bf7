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
// Sizes are powers of four from 1 KiB to 16 MiB; memory that one size took is
// not given to another. So the arena must be sized for the mix of inputs.
package arena

import (
	"errors"
	"fmt"
	"sync"

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
	// chunk is how much memory a size takes at a time, if its slabs are smaller.
	chunk = 1 << 20
)

// slab is one piece of the arena.
type slab struct {
	offset     int
	class      int8
	freed      bool // freed while pinned
	used       bool
	generation uint32
	pins       int32
	request    wire.RequestID
	length     uint32
}

// Arena is a bounded set of slabs; safe for concurrent use.
type Arena struct {
	mapper  transport.Mapper
	mapped  []byte // headers, then slabs; nil once unmapped
	headers int    // how many there is room for
	memory  []byte // the slabs' part

	mu    sync.Mutex // Guards what follows, and the end of the above.
	slabs []slab
	free  [classes][]uint32 // slabs by size
	taken int               // bytes of memory that belong to a size
	used  int               // slabs in use
	held  int               // slabs in use, or freed and still pinned
	shut  bool
}

// New maps an arena of size bytes (rounded up to a whole chunk), and the headers
// of as many slabs as that can be. m: where the memory comes from; nil: mmap.
func New(size int64, m transport.Mapper) (*Arena, error) {
	size = (size + chunk - 1) / chunk * chunk
	if m == nil {
		m = pages{}
	}
	headers := int(size / smallest)
	front := (headers*wire.SlabHeaderSize + frontUnit - 1) / frontUnit * frontUnit
	mapped, err := m.Map(front + int(size))
	if err != nil {
		return nil, fmt.Errorf("arena of %d bytes: %w", size, err)
	}
	return &Arena{mapper: m, mapped: mapped, headers: headers, memory: mapped[front:]}, nil
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
	a.mapped, a.memory, a.slabs, a.free = nil, nil, nil, [classes][]uint32{}
	return a.mapper.Unmap(m)
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
	if len(a.free[class]) == 0 && !a.carve(class) {
		return 0, nil, ErrFull
	}
	last := len(a.free[class]) - 1
	i := a.free[class][last]
	a.free[class] = a.free[class][:last]
	s := &a.slabs[i]
	s.used, s.request, s.length = true, 0, uint32(n)
	a.used++
	a.held++
	return wire.MakeSlabHandle(i, s.generation), a.bytes(s), nil
}

// carve gives the class another chunk of memory.
func (a *Arena) carve(class int) bool {
	size := smallest << (2 * class)
	span := max(chunk, size)
	if a.taken+span > len(a.memory) {
		return false
	}
	for at := a.taken; at+size <= a.taken+span; at += size {
		a.free[class] = append(a.free[class], uint32(len(a.slabs)))
		a.slabs = append(a.slabs, slab{offset: at, class: int8(class), generation: 1})
	}
	a.taken += span
	return true
}

func (a *Arena) bytes(s *slab) []byte {
	return a.memory[s.offset : s.offset+int(s.length) : s.offset+int(s.length)]
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
	s := &a.slabs[i]
	s.freed = false
	a.free[s.class] = append(a.free[s.class], i)
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
	return a.bytes(s), nil
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
