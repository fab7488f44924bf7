package transporttest

import (
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Slabs is a SlabSource that counts its pins.
type Slabs struct {
	mu     sync.Mutex // Guards what follows.
	data   map[wire.SlabHandle][]byte
	owner  map[wire.SlabHandle]wire.RequestID
	pins   int
	unpins int
}

// NewSlabs makes n slabs: handle (i, 1) is request i's, with pattern bytes
// of the given sizes in turn.
func NewSlabs(n int, sizes ...int) *Slabs {
	s := &Slabs{data: map[wire.SlabHandle][]byte{}, owner: map[wire.SlabHandle]wire.RequestID{}}
	for i := range n {
		h := wire.MakeSlabHandle(uint32(i), 1)
		s.data[h] = pattern(sizes[i%len(sizes)], byte(i))
		s.owner[h] = wire.RequestID(i)
	}
	return s
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
	h := wire.MakeSlabHandle(uint32(i), 1)
	n := len(s.data[h])
	return transport.ReadOp{Request: wire.RequestID(i), Input: wire.SlabRef{Handle: h, Length: uint32(n)},
		Dst: make([]byte, n), Done: r.done, Token: uint64(i)}
}
