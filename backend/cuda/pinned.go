package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Pinned pins the batch buffers of one device for CUDA: it is told of each chunk of the
// device's pool (a pages.Registrar), which RDMA devices may know, too. So an input is READ
// to where the copy to the GPU starts.
//
// The memory is mapped by the pool and only registered with CUDA (not HostAlloc's): it
// outlives a context that is lost, with the orders that lie in it, and is pinned again when
// the device comes back. A chunk that CUDA does not pin is used all the same; copies from
// there wait. Who hangs in the driver hangs nobody here: each call is waited for callMax.
//
// Order at the end: Device.Close unpins (Detach), links close, the pool unmaps.
type Pinned struct {
	// Warn is told of the first chunk that a context does not pin, set before anything else
	// is called; nil: nobody is. It calls nothing of this Pinned.
	Warn func(err error)

	bytes atomic.Int64 // that are pinned

	mu     sync.Mutex // Guards what follows; held during calls of the driver.
	ctx    Context    // nil: none now
	chunks map[*byte]*chunk
	err    error // the last chunk that could not be pinned
	told   bool  // Warn was, for this context
}

// chunk is a piece of the pool.
type chunk struct {
	mem  []byte
	by   Context // that it was registered with, as far as is known; nil: it is not
	sure bool    // it is, and is counted
}

// callMax bounds what is waited for a call that pins: some milliseconds for as many MiB.
const callMax = time.Second

// NewPinned makes one without a device.
func NewPinned() *Pinned { return &Pinned{chunks: map[*byte]*chunk{}} }

// Bytes is how much is pinned.
func (p *Pinned) Bytes() int64 { return p.bytes.Load() }

// Err is why a chunk could not be pinned, if there was one.
func (p *Pinned) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Attach pins all chunks for a context, and those that will come, until Detach of it. The one
// before has been detached.
func (p *Pinned) Attach(c Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.told = c, false
	for _, k := range p.chunks {
		p.pinLocked(k)
	}
}

// Abandon ends Attach of a lost context without a call of the driver: what comes is not pinned.
func (p *Pinned) Abandon(c Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == c {
		p.ctx = nil
	}
}

// Detach unpins what is pinned for a context, which has no copies under way any more and is
// closed next: that unpins what the driver kept here.
func (p *Pinned) Detach(c Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == c {
		p.ctx = nil
	}
	for _, k := range p.chunks {
		if k.by == c {
			_ = p.unpinLocked(k)
		}
	}
}

// Register implements pages.Registrar.
func (p *Pinned) Register(mem []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := &chunk{mem: mem}
	p.chunks[unsafe.SliceData(mem)] = k
	p.pinLocked(k)
	return nil
}

// Unregister implements pages.Registrar.
func (p *Pinned) Unregister(mem []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.chunks[unsafe.SliceData(mem)]
	if k.by != nil {
		if err := p.unpinLocked(k); err != nil {
			return fmt.Errorf("%d bytes stay pinned: %w", len(mem), err)
		}
	}
	delete(p.chunks, unsafe.SliceData(mem))
	return nil
}

// pinLocked pins a chunk that is not, if there is a context. Caller holds mu.
func (p *Pinned) pinLocked(k *chunk) {
	if p.ctx == nil || k.by != nil {
		return
	}
	c := p.ctx
	err := within(callMax, func() error { return On(c, func() error { return c.HostRegister(k.mem) }) })
	if err == nil || errors.Is(err, errSilent) { // it may yet do it
		k.by, k.sure = c, err == nil
	}
	if err != nil {
		p.err = fmt.Errorf("pinning %d bytes of batch buffers: %w", len(k.mem), err)
		if !p.told && p.Warn != nil {
			p.Warn(fmt.Errorf("%w: copies from there are slower; raise the memlock limit (ulimit -l), or lower rdma.buffers", p.err))
		}
		p.told = true
		return
	}
	p.bytes.Add(int64(len(k.mem)))
}

// unpinLocked unpins a chunk. A lost context has unpinned it, or will. Caller holds mu.
func (p *Pinned) unpinLocked(k *chunk) error {
	c := k.by
	err := within(callMax, func() error { return On(c, func() error { return c.HostUnregister(k.mem) }) })
	if errors.Is(err, errSilent) {
		return err
	}
	if k.sure {
		p.bytes.Add(-int64(len(k.mem)))
	}
	k.by, k.sure = nil, false
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// errSilent: a call of the driver did not come back in time.
var errSilent = errors.New("the driver does not answer")

// within waits for a call of the driver at most d; it goes on alone after that.
func within(d time.Duration, f func() error) error {
	back := make(chan error, 1)
	go func() { back <- f() }()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case err := <-back:
		return err
	case <-timer.C:
		return fmt.Errorf("%w after %v", errSilent, d)
	}
}
