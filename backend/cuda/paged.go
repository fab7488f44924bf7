package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Paged is a Device whose models come and go by order, beside what runs: the host keeps them (Put), LOAD makes
// a program with its places and first runs, UNLOAD gives all of it back. Its pages are a budget: how much a model takes
// was weighed (LoadAside), and the executor loads no more than fits.
//
//	host: Put --> LOAD: Device.Load --> batches --> UNLOAD: Device.Unload --> Take
//
// # Rules
//
//  1. One load or unload at a time: what a model takes is told by what is free before and after. An unload
//     behind a load keeps nobody waiting, for the next load is behind that one, too.
//  2. A lost device has nothing, and comes back empty (Options.Forgets). What the host keeps stays.
//  3. Who is told that the device is lost (Options.Losing) has been told before a load ends for that.
//  4. The first model of a device, or of one that has come back, is loaded once before for nothing: what stays of that, such as
//     kernels of the libraries, is no model's weight, and nothing else is there yet that could lack the room.
type Paged struct {
	device *Device // Immutable, and so are the next ones.
	pages  int
	ctx    context.Context // ends with Close
	stop   context.CancelFunc

	turn   chan struct{} // full: somebody loads or unloads
	warmed *pipeline     // the life that has had a model. Owned by who has the turn

	mu     sync.Mutex // Guards what follows.
	models []*Model   // by slot: what the host has; nil: none
	closed bool
	work   sync.WaitGroup // of loads and unloads
}

var (
	_ executor.Pipelined = (*Paged)(nil)
	_ executor.Pager     = (*Paged)(nil)

	errNoModel = errors.New("the host has no model for this slot")
)

// NewPaged has a device with Options.Forgets, which is the Paged's from now on, load by order.
func NewPaged(d *Device, pages int) *Paged {
	p := &Paged{device: d, pages: pages, turn: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Put gives the host a slot's model, and Take takes it away; the device does not have it.
func (p *Paged) Put(slot int, m Model) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.models) <= slot {
		p.models = append(p.models, nil)
	}
	p.models[slot] = &m
}

// Take is Put's opposite; nil: there was none.
func (p *Paged) Take(slot int) *Model {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slot >= len(p.models) {
		return nil
	}
	m := p.models[slot]
	p.models[slot] = nil
	return m
}

// Pages implements executor.Pager.
func (p *Paged) Pages() int { return p.pages }

// Depth implements executor.Pipelined.
func (p *Paged) Depth() int { return p.device.Depth() }

// Launch implements executor.Device.
func (p *Paged) Launch(b *executor.Batch) { p.device.Launch(b) }

// begin counts a piece of work; false: the device is closed. Its model's file is in use until end.
func (p *Paged) begin(slot int) (m *Model, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.work.Add(1)
	if slot < len(p.models) {
		m = p.models[slot]
	}
	if m != nil {
		m.File.Use()
	}
	return m, true
}

func (p *Paged) end(m *Model) {
	if m != nil {
		m.File.Close()
	}
	p.work.Done()
}

// take waits for the turn to load or unload.
func (p *Paged) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Paged) leave() { <-p.turn }

// ended reports whether the device has been closed meanwhile: nobody is told any more.
func (p *Paged) ended() bool { return p.ctx.Err() != nil }

// Load implements executor.Pager.
func (p *Paged) Load(slot int, done func(executor.Copied)) {
	m, ok := p.begin(slot)
	if !ok {
		return
	}
	go func() {
		defer p.end(m)
		c := p.load(slot, m)
		if !p.ended() {
			done(c)
		}
	}()
}

func (p *Paged) load(slot int, m *Model) executor.Copied {
	if err := p.take(p.ctx); err != nil {
		return executor.Copied{Err: err} // it is closed: nobody is told
	}
	defer p.leave()
	c := executor.Copied{Start: mono.Now(), Err: errNoModel}
	if m != nil {
		if c.Err = p.warm(p.ctx, *m); c.Err == nil {
			c.Start = mono.Now()
			c.Bytes, c.Err = p.device.Load(p.ctx, slot, *m)
		}
	}
	c.End = mono.Now()
	if errors.Is(c.Err, ErrMemory) {
		c.Err = fmt.Errorf("%w: %w", executor.ErrMemory, c.Err)
	}
	return c
}

// Unload implements executor.Pager.
func (p *Paged) Unload(slot int, done func()) {
	m, ok := p.begin(slot)
	if !ok {
		return
	}
	go func() {
		defer p.end(m)
		if p.take(p.ctx) != nil {
			return // it is closed, with all that it has
		}
		p.device.Unload(slot)
		p.leave()
		if !p.ended() {
			done()
		}
	}()
}

// Aside has the device load a model beside those of its slots, when it is its turn, into so many bytes at most (0: what there
// is); end unloads it.
func (p *Paged) Aside(ctx context.Context, m Model, most int64) (a *Aside, end func(), err error) {
	if err := p.take(ctx); err != nil {
		return nil, nil, err
	}
	defer p.leave()
	if err := p.warm(ctx, m); err != nil {
		return nil, nil, err
	}
	if a, err = p.device.LoadAside(ctx, m, most); err != nil {
		return nil, nil, err
	}
	return a, func() {
		p.turn <- struct{}{} // one at a time gives it back soon
		defer p.leave()
		a.Close()
	}, nil
}

// Warm is rule 4 with a slot's model, before one is ordered.
func (p *Paged) Warm(ctx context.Context, slot int) error {
	m, ok := p.begin(slot)
	if !ok {
		return nil
	}
	defer p.end(m)
	if m == nil {
		return nil // what is ordered first does it
	}
	if err := p.take(ctx); err != nil {
		return err
	}
	defer p.leave()
	return p.warm(ctx, *m)
}

// warm is rule 4. Where there is no room, with what stays, the load itself says so. Caller has the turn.
func (p *Paged) warm(ctx context.Context, m Model) error {
	if p.warmed == p.device.life.Load() {
		return nil
	}
	a, err := p.device.LoadAside(ctx, m, 0)
	switch {
	case errors.Is(err, ErrMemory):
		return nil
	case err != nil:
		return err
	}
	p.warmed = a.p
	a.Close()
	return nil
}

// workMost bounds what Close waits for loads and unloads: a library that makes a session cannot be stopped.
const workMost = 5 * time.Second

// Close implements executor.Device. What is being loaded ends first, as soon as it can; what hangs is left to the device, which
// leaves it alone.
func (p *Paged) Close() {
	p.device.leave() // first: who unloads may wait for a reopening, which hangs
	p.Stop()
	p.device.Close()
}

// Stop ends what is being loaded by order, and takes no more orders; the device is left as it is.
func (p *Paged) Stop() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	_ = within(workMost, func() error { p.work.Wait(); return nil })
}
