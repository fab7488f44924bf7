package rdma

import (
	"errors"
	"math/bits"
	"sync"
)

// Pool is registered memory for what this host READs and sends: pieces of powers
// of two from poolLeast on, cut from chunks that are registered as they are needed
// and stay until Close. (Registering costs a system call and pins pages: 0.56 ms for
// 150 KB under emulation; a piece from here costs a lock.)
type Pool struct {
	nic *NIC
	max int64

	mu     sync.Mutex // Guards what follows.
	free   [64][][]byte
	chunks []poolChunk
	total  int64
	closed bool
	err    error // the last chunk that could not be had
}

type poolChunk struct {
	mem    []byte
	region Region
}

const (
	poolLeast     = 4 << 10
	poolChunkSize = 4 << 20
)

// NewPool makes one that grows up to max bytes.
func (n *NIC) NewPool(max int64) *Pool { return &Pool{nic: n, max: max} }

// Alloc gives n bytes, whose capacity is a power of two; false: there is no more
// memory, or none that can be registered (Err says why).
func (p *Pool) Alloc(n int) ([]byte, bool) {
	class := bits.Len(uint(max(n, poolLeast) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	if len(p.free[class]) == 0 && !p.grow(class) {
		return nil, false
	}
	last := len(p.free[class]) - 1
	b := p.free[class][last]
	p.free[class] = p.free[class][:last]
	return b[:n], true
}

// Free takes back what Alloc gave.
func (p *Pool) Free(b []byte) {
	class := bits.Len(uint(cap(b) - 1))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free[class] = append(p.free[class], b[:0:cap(b)])
}

// grow registers a chunk for a class. Caller holds mu.
func (p *Pool) grow(class int) bool {
	size := 1 << class
	span := max(size, poolChunkSize)
	if p.total+int64(span) > p.max {
		return false
	}
	mem, err := Map(span, p.nic.cfg.NUMANode)
	if err != nil {
		p.err = err
		return false
	}
	region, err := p.nic.Register(mem, LocalWrite)
	if err != nil {
		p.err = errors.Join(err, Unmap(mem))
		return false
	}
	p.chunks = append(p.chunks, poolChunk{mem, region})
	p.total += int64(span)
	for at := 0; at+size <= span; at += size {
		p.free[class] = append(p.free[class], mem[at:at:at+size])
	}
	return true
}

// Err is why the last growth failed, if it did.
func (p *Pool) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close gives everything back. Nobody may use a piece any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range p.chunks {
		errs = append(errs, c.region.Close(), Unmap(c.mem))
	}
	p.chunks, p.free = nil, [64][][]byte{}
	return errors.Join(errs...)
}
