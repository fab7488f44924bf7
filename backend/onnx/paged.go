//go:build cgo

package onnx

import (
	"sync"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Paged is a Device that makes the sessions of its models on demand, from the host's memory: LOAD is
// a session and one run of it, UNLOAD its end. Sessions are made beside what runs, one at a time, and take processor time.
// Its pages are a budget: how much a session takes was measured (Blob.Measure), and the executor loads no more than fits. What a session
// that ended took is kept for the next one, as far as pages are free (onnxrt.Keep).
type Paged struct {
	device *Device // Immutable.
	pages  int     // Immutable.
	bytes  int64   // Immutable: of all pages.

	mu     sync.Mutex // Guards what follows.
	blobs  []*Blob    // by slot; nil: the host has no model for it
	taken  []int64    // by slot: bytes that its session was measured to take; 0: it has none
	closed bool
	work   sync.WaitGroup // of sessions that are made or ended
}

// NewPaged starts a device with so many pages of page bytes, empty.
func NewPaged(pages int, page int64) (*Paged, error) {
	p := &Paged{pages: pages, bytes: int64(pages) * page}
	if err := onnxrt.Keep(); err != nil {
		return nil, err
	}
	onnxrt.KeepMore(p.bytes)
	p.device = NewDevice(nil)
	return p, nil
}

// Put gives the host a slot's model, and Take takes it away; the device has no session of it.
func (p *Paged) Put(slot int, b *Blob) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.blobs) <= slot {
		p.blobs = append(p.blobs, nil)
	}
	p.blobs[slot] = b
}

// Take is Put's opposite; nil: there was none.
func (p *Paged) Take(slot int) *Blob {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slot >= len(p.blobs) {
		return nil
	}
	b := p.blobs[slot]
	p.blobs[slot] = nil
	return b
}

// Pages implements executor.Pager.
func (p *Paged) Pages() int { return p.pages }

// Launch implements executor.Device.
func (p *Paged) Launch(b *executor.Batch) { p.device.Launch(b) }

// begin reports whether work may begin, and counts it.
func (p *Paged) begin(slot int) (b *Blob, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.work.Add(1)
	if slot < len(p.blobs) {
		b = p.blobs[slot]
	}
	return b, true
}

// Load implements executor.Pager.
func (p *Paged) Load(slot int, done func(executor.Copied)) {
	b, ok := p.begin(slot)
	if !ok {
		return
	}
	go func() {
		defer p.work.Done()
		c := executor.Copied{Start: mono.Now(), Err: errNoModel}
		if b != nil {
			var s *Session
			if s, c.Err = b.Open(); c.Err == nil {
				if c.Err = p.device.Load(slot, s); c.Err != nil {
					s.Close()
				} else {
					p.enter(slot, b.size())
				}
			}
			c.Bytes = int64(len(b.data.Bytes()))
		}
		c.End = mono.Now()
		done(c)
	}()
}

// Unload implements executor.Pager.
func (p *Paged) Unload(slot int, done func()) {
	if _, ok := p.begin(slot); !ok {
		return
	}
	go func() {
		defer p.work.Done()
		p.leave(slot) // first, so that what it took is kept
		if s := p.device.Unload(slot); s != nil {
			s.Close()
		}
		done()
	}()
}

// enter counts a slot's session: its pages are no longer free.
func (p *Paged) enter(slot int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.taken) <= slot {
		p.taken = append(p.taken, 0)
	}
	p.taken[slot] = bytes
	onnxrt.KeepMore(-bytes)
}

// leave is its end.
func (p *Paged) leave(slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slot < len(p.taken) {
		onnxrt.KeepMore(p.taken[slot])
		p.taken[slot] = 0
	}
}

// Close implements executor.Device: what is being loaded or unloaded ends first.
func (p *Paged) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.work.Wait()
	p.device.Close()
	for slot := range p.taken {
		p.leave(slot)
	}
	onnxrt.KeepMore(-p.bytes)
	onnxrt.KeepNot()
}
