// Package emugpu emulates GPUs: a batch takes l(b), give or take a jitter, in
// real time. Execution on a GPU is predictable, so that a delay is a faithful
// stand-in for scheduling questions (Symphony, section 5). Thousands of
// devices share one thread that waits precisely.
//
// A Paged device loads its models' weights on demand, beside what it executes.
//
// The output of a request is its input's first bytes, repeated: different
// requests get different outputs, and a mix-up is seen.
package emugpu

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/ring"
)

// Clock ends the executions of all devices made from it. Close it last.
type Clock struct {
	waiter ring.Waiter
	done   chan struct{}

	mu      sync.Mutex // Guards what follows.
	ends    pq.Heap    // device -> end
	devices []*Device
	copies  pq.Heap // paged device -> end of its copy
	paged   []*Paged
	bus     mono.Time // when the host's bus is free, for those that share it
	rand    *rand.Rand
	stopped bool
}

// NewClock starts the clock; seed is that of the jitter.
func NewClock(seed uint64) *Clock {
	c := &Clock{done: make(chan struct{}), rand: rand.New(rand.NewPCG(seed, 0x656d75))}
	go c.run()
	return c
}

// Close ends the clock. Executions under way are never finished.
func (c *Clock) Close() {
	c.mu.Lock()
	c.stopped = true
	c.mu.Unlock()
	c.waiter.Wake()
	<-c.done
}

// Device is one emulated GPU.
type Device struct {
	clock  *Clock
	id     uint32
	jitter float64

	// Guarded by clock.mu.
	profiles []*profile.Profile // by slot; nil: no model is there
	batch    *executor.Batch
	start    mono.Time
	end      mono.Time
}

// NewDevice makes a device that runs models with these profiles. A run takes up
// to jitter times longer, evenly spread.
func (c *Clock) NewDevice(profiles []*profile.Profile, jitter float64) *Device {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := &Device{clock: c, id: uint32(len(c.devices)), profiles: slices.Clone(profiles), jitter: jitter}
	c.devices = append(c.devices, d)
	return d
}

// Load puts a model into a slot, Unload takes it out. Nothing of the slot is under way.
func (d *Device) Load(slot int, l *profile.Profile) {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	for len(d.profiles) <= slot {
		d.profiles = append(d.profiles, nil)
	}
	d.profiles[slot] = l
}

// Unload is Load's opposite.
func (d *Device) Unload(slot int) {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	if slot < len(d.profiles) {
		d.profiles[slot] = nil
	}
}

// errNoModel ends a batch of a slot that is empty.
var errNoModel = errors.New("the emulated device has no model in this slot")

// Launch implements executor.Device.
func (d *Device) Launch(b *executor.Batch) {
	c := d.clock
	c.mu.Lock()
	if b.Model >= len(d.profiles) || d.profiles[b.Model] == nil {
		c.mu.Unlock()
		now := mono.Now()
		b.Finish(now, now, errNoModel)
		return
	}
	length := c.longer(d.profiles[b.Model].Latency(b.Size), d.jitter)
	d.batch, d.start = b, mono.Now()
	d.end = d.start.Add(length)
	first := c.ends.Len() == 0
	if !first {
		_, at := c.ends.Min()
		first = int64(d.end) < at
	}
	c.ends.Set(d.id, int64(d.end))
	c.mu.Unlock()
	if first {
		c.waiter.Wake()
	}
}

// longer is a length with a jitter. Caller holds mu.
func (c *Clock) longer(length mono.Dur, jitter float64) mono.Dur {
	if jitter > 0 {
		length += mono.Dur(float64(length) * jitter * c.rand.Float64())
	}
	return length
}

// Close implements executor.Device.
func (d *Device) Close() {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	d.clock.ends.Remove(d.id)
	d.batch = nil
}

// run waits for the next end and finishes its batch.
func (c *Clock) run() {
	defer close(c.done)
	ring.Lock()
	for {
		c.waiter.Arm()
		b, start, end, next, stopped := c.due(mono.Now())
		done, copied, nextCopy := c.copyDue(mono.Now())
		switch {
		case stopped:
			return
		case b != nil || done != nil:
			c.waiter.Disarm()
			if b != nil {
				fill(b)
				b.Finish(start, end, nil)
			}
			if done != nil {
				done(copied)
			}
		default:
			c.waiter.Wait(min(next, nextCopy))
		}
	}
}

// due takes the next batch that has ended.
func (c *Clock) due(now mono.Time) (b *executor.Batch, start, end, next mono.Time, stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.ends.Len() == 0 {
		return nil, 0, 0, mono.Never, c.stopped
	}
	id, at := c.ends.Min()
	if mono.Time(at) > now {
		return nil, 0, 0, mono.Time(at), false
	}
	c.ends.Remove(id)
	d := c.devices[id]
	b, d.batch = d.batch, nil
	// A device that is late is late: what this thread's sleep took too long is part of
	// the execution, as who plans with its length must know.
	return b, d.start, now, 0, false
}

// fill writes the outputs.
func fill(b *executor.Batch) {
	for i, out := range b.Outputs {
		in := b.Inputs[i]
		if len(in) == 0 {
			clear(out)
			continue
		}
		for n := copy(out, in); n < len(out); {
			n += copy(out[n:], out[:n])
		}
	}
}
