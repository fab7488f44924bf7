package transporttest

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Slabs is a SlabSource that counts its pins, and a RemoteSlabs.
type Slabs struct {
	memory  []byte // headers, then slabs
	key     uint32 // of the listener that serves them
	buffers transport.Allocator

	mu     sync.Mutex // Guards what follows.
	data   map[wire.SlabHandle][]byte
	owner  map[wire.SlabHandle]wire.RequestID
	pins   int
	unpins int
}

// NewSlabs makes n slabs: handle (i, 1) is request i's, with pattern bytes
// of the given sizes in turn.
func NewSlabs(n int, sizes ...int) *Slabs {
	s := &Slabs{data: map[wire.SlabHandle][]byte{}, owner: map[wire.SlabHandle]wire.RequestID{}, buffers: transport.Heap{}}
	at := n * wire.SlabHeaderSize
	total := at
	for i := range n {
		total += sizes[i%len(sizes)]
	}
	var err error
	if s.memory, err = unix.Mmap(-1, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		panic(err) // a test's own memory
	}
	for i := range n {
		h := wire.MakeSlabHandle(uint32(i), 1)
		size := sizes[i%len(sizes)]
		s.data[h] = s.memory[at:][:copy(s.memory[at:at+size], pattern(size, byte(i)))]
		s.owner[h] = requestOf(i)
		wire.SlabHeader{Request: requestOf(i), Generation: 1, Length: uint32(size)}.Put(s.memory[i*wire.SlabHeaderSize:])
		at += size
	}
	return s
}

// requestOf is the request that slab i belongs to.
func requestOf(i int) wire.RequestID { return wire.RequestID(i + 1) }

// Memory implements transport.RemoteSlabs.
func (s *Slabs) Memory() ([]byte, int) { return s.memory, len(s.data) }

// Count is how many slabs there are.
func (s *Slabs) Count() int { return len(s.data) }

// Bytes are those of slab i.
func (s *Slabs) Bytes(i int) []byte { return s.data[wire.MakeSlabHandle(uint32(i), 1)] }

// Op is the READ of slab i, without a Done, into memory of the reader's network.
func (s *Slabs) Op(i int) transport.ReadOp {
	data := s.Bytes(i)
	return transport.ReadOp{Request: requestOf(i), Input: transport.SlabRef(wire.MakeSlabHandle(uint32(i), 1), data, s.key),
		Dst: s.buffers.Alloc(len(data)), Token: uint64(i)}
}

// Serve tells who serves the slabs, and whose memory READs shall go to.
func (s *Slabs) Serve(l transport.Listener, n transport.Network) {
	s.key, s.buffers = transport.SlabKey(l), transport.BuffersOf(n)
}

// Pin checks handle, request and length.
func (s *Slabs) Pin(ref wire.SlabRef, request wire.RequestID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.data[ref.Handle]
	if !ok || s.owner[ref.Handle] != request || len(data) != int(ref.Length) {
		return nil, transport.ErrStale
	}
	s.pins++
	return data, nil
}

// Unpin counts.
func (s *Slabs) Unpin(wire.SlabRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpins++
}

// Settle waits until every pin is given back, and checks that none was twice.
func (s *Slabs) Settle(t *testing.T) {
	t.Helper()
	Until(t, "all slabs unpinned", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.pins == s.unpins
	})
}

// results counts the Done calls of ops by their token.
type results struct {
	mu   sync.Mutex // Guards what follows.
	errs map[uint64][]error
}

func newResults() *results { return &results{errs: map[uint64][]error{}} }

// done is a ReadOp.Done.
func (r *results) done(token uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[token] = append(r.errs[token], err)
}

func (r *results) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.errs)
}

// check waits for n tokens and looks at each one's single outcome.
func (r *results) check(t *testing.T, n int, ok func(error) bool) {
	t.Helper()
	Until(t, "all READs done", func() bool { return r.count() >= n })
	r.mu.Lock()
	defer r.mu.Unlock()
	for token, errs := range r.errs {
		if len(errs) != 1 || !ok(errs[0]) {
			t.Errorf("READ %d ended with %v", token, errs)
		}
	}
}

// op is the READ of slab i.
func (r *results) op(s *Slabs, i int) transport.ReadOp {
	op := s.Op(i)
	op.Done = r.done
	return op
}
