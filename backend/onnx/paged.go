//go:build cgo

package onnx

import (
	"sync"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Paged is a Device that makes the sessions of its models on demand, from the host's memory: LOAD is
// a session and one run of it, UNLOAD its end. Sessions are made beside what runs, one at a time, and take processor time.
// Its pages are a budget: how much a session takes was measured (Blob.Measure), and the executor loads no more than fits.
type Paged struct {
	device *Device // Immutable.
	pages  int     // Immutable.

	mu     sync.Mutex // Guards what follows.
	blobs  []*Blob    // by slot; nil: the host has no model for it
	closed bool
	work   sync.WaitGroup // of sessions that are made or ended
}

// NewPaged starts a device with so many pages, empty.
func NewPaged(pages int) *Paged { return &Paged{device: NewDevice(nil), pages: pages} }

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
		if s := p.device.Unload(slot); s != nil {
			s.Close()
		}
		done()
	}()
}

// Close implements executor.Device: what is being loaded or unloaded ends first.
func (p *Paged) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.work.Wait()
	p.device.Close()
}
