// Package pages gives memory that devices reach: mapped outside the Go heap, in large
// chunks that are made known to each of the devices once, and cut into pieces.
package pages

import (
	"errors"
	"math/bits"
	"slices"
	"sync"
	"unsafe"
)

// Registrar makes chunks known to a device. A pool calls it for one chunk at a time.
type Registrar interface {
	// Register comes before anything is cut from the chunk. An error: there is no such chunk.
	Register(chunk []byte) error
	// Unregister comes before the chunk is unmapped. An error: the device may yet reach it,
	// and it stays mapped.
	Unregister(chunk []byte) error
}

// Pool is memory that some devices reach: pieces of powers of two from poolLeast on, cut
// from chunks that are registered as they are needed and stay until Close. (Registering
// costs a system call and pins pages: 0.56 ms for 150 KB under emulation; a piece from here
// costs a lock.)
type Pool struct {
	node    int         // Immutable.
	max     int64       // Immutable.
	devices []Registrar // Immutable.

	mu     sync.Mutex // Guards what follows.
	free   [64][][]byte
	chunks [][]byte
	total  int64
	closed bool
	err    error // the last chunk that could not be had
}

const (
	poolLeast     = 4 << 10
	poolChunkSize = 4 << 20
)

// NewPool makes one that grows up to max bytes, on a NUMA node where node is not negative,
// and that all the devices reach.
func NewPool(node int, max int64, devices ...Registrar) *Pool {
	return &Pool{node: node, max: max, devices: devices}
}

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

// Holds reports whether b came from here.
func (p *Pool) Holds(b []byte) bool {
	if cap(b) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.chunks, func(c []byte) bool {
		base := uintptr(unsafe.Pointer(unsafe.SliceData(c)))
		return at >= base && at < base+uintptr(len(c))
	})
}

// grow registers a chunk for a class. Caller holds mu.
func (p *Pool) grow(class int) bool {
	size := 1 << class
	span := max(size, poolChunkSize)
	if p.total+int64(span) > p.max {
		return false
	}
	mem, err := Map(span, p.node)
	if err != nil {
		p.err = err
		return false
	}
	for i, d := range p.devices {
		if err := d.Register(mem); err != nil {
			p.err = errors.Join(err, unmap(mem, p.devices[:i]))
			return false
		}
	}
	p.chunks = append(p.chunks, mem)
	p.total += int64(span)
	for at := 0; at+size <= span; at += size {
		p.free[class] = append(p.free[class], mem[at:at:at+size])
	}
	return true
}

// unmap gives a chunk back that the devices know, the last of them first.
func unmap(mem []byte, devices []Registrar) error {
	var errs []error
	for _, d := range slices.Backward(devices) {
		errs = append(errs, d.Unregister(mem))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return Unmap(mem)
}

// Max is how many bytes there may be.
func (p *Pool) Max() int64 { return p.max }

// Err is why the last growth failed, if it did.
func (p *Pool) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Bytes is how much memory is mapped and registered now.
func (p *Pool) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Close gives everything back. Nobody may use a piece any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range p.chunks {
		errs = append(errs, unmap(c, p.devices))
	}
	p.chunks, p.free, p.total = nil, [64][][]byte{}, 0
	return errors.Join(errs...)
}
