package emugpu

import (
	"errors"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Paged is an emulated GPU whose models' weights are loaded on demand: copying has a timeline of its own
// beside execution, and takes what the model says.
type Paged struct {
	device *Device // Immutable, and so are the next ones.
	id     uint32
	pages  int
	shared bool

	// Guarded by the clock's mu.
	models []Model // by slot: what the host has
	there  []bool  // by slot: what the device has
	slot   int     // that is copied
	done   func(executor.Copied)
	start  mono.Time
	closed bool
}

// Model is one that a paged device can load.
type Model struct {
	Profile *profile.Profile // nil: none
	Bytes   int64            // of its weights
	Copy    mono.Dur         // what it takes to copy them
}

// Memory of a paged device.
type Memory struct {
	Pages  int  // for weights
	Shared bool // copies of all devices of the clock that have this go over one bus, one after the other
}

var (
	errNoWeights = errors.New("the emulated device does not have the model's weights")
	errNoCopy    = errors.New("the host does not have the model's weights")
)

// NewPaged makes a device with memory in pages, empty. Runs and copies take up to jitter times longer, evenly spread.
func (c *Clock) NewPaged(m Memory, jitter float64) *Paged {
	p := &Paged{device: c.NewDevice(nil, jitter), pages: m.Pages, shared: m.Shared}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.id = uint32(len(c.paged))
	c.paged = append(c.paged, p)
	return p
}

// Put gives the host a slot's model, to be loaded later; Drop takes it away. Neither is called while
// the device has its weights.
func (p *Paged) Put(slot int, m Model) {
	p.device.Load(slot, m.Profile)
	c := p.device.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(p.models) <= slot {
		p.models, p.there = append(p.models, Model{}), append(p.there, false)
	}
	p.models[slot] = m
}

// Drop is Put's opposite.
func (p *Paged) Drop(slot int) { p.Put(slot, Model{}) }

// Pages implements executor.Pager.
func (p *Paged) Pages() int { return p.pages }

// Launch implements executor.Device.
func (p *Paged) Launch(b *executor.Batch) {
	c := p.device.clock
	c.mu.Lock()
	there := b.Model < len(p.there) && p.there[b.Model]
	c.mu.Unlock()
	if !there {
		now := mono.Now()
		b.Finish(now, now, errNoWeights)
		return
	}
	p.device.Launch(b)
}

// Load implements executor.Pager.
func (p *Paged) Load(slot int, done func(executor.Copied)) {
	c := p.device.clock
	c.mu.Lock()
	now := mono.Now()
	if slot >= len(p.models) || p.models[slot].Profile == nil {
		c.mu.Unlock()
		done(executor.Copied{Start: now, End: now, Err: errNoCopy})
		return
	}
	if p.closed {
		c.mu.Unlock()
		return
	}
	p.slot, p.done, p.start = slot, done, now
	if p.shared {
		p.start = max(now, c.bus)
	}
	end := p.start.Add(c.longer(p.models[slot].Copy, p.device.jitter))
	if p.shared {
		c.bus = end
	}
	c.copies.Set(p.id, int64(end))
	c.mu.Unlock()
	c.waiter.Wake()
}

// Unload implements executor.Pager.
func (p *Paged) Unload(slot int, done func()) {
	c := p.device.clock
	c.mu.Lock()
	p.there[slot] = false
	c.mu.Unlock()
	done()
}

// Close implements executor.Device.
func (p *Paged) Close() {
	p.device.Close()
	c := p.device.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copies.Remove(p.id)
	p.done, p.closed = nil, true
}

// copyDue takes the next copy that has ended.
func (c *Clock) copyDue(now mono.Time) (done func(executor.Copied), copied executor.Copied, next mono.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.copies.Len() == 0 {
		return nil, copied, mono.Never
	}
	id, at := c.copies.Min()
	if mono.Time(at) > now {
		return nil, copied, mono.Time(at)
	}
	c.copies.Remove(id)
	p := c.paged[id]
	p.there[p.slot] = true
	copied = executor.Copied{Start: p.start, End: now, Bytes: p.models[p.slot].Bytes}
	done, p.done = p.done, nil
	return done, copied, 0
}
