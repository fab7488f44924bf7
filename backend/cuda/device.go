package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Depth is how many batches a device takes at a time: one executes, one is copied in.
const Depth = 2

// Options of a device. Zero values mean the defaults in brackets.
type Options struct {
	// Budget is how much of the device's memory models, inputs and outputs may take, bytes
	// [what is free].
	Budget int64
	// Pinned pins the batch buffers for this device, while it lives [nobody does].
	Pinned *Pinned
	// A batch that takes longer than HangFactor [20] times its own time, and Hang [2 s] more,
	// makes the device lost.
	HangFactor int
	Hang       mono.Dur
	// Stall is the longest that may pass with each step of the loading: a model, or the first run of a size,
	// for which kernels are chosen or built [10 min].
	Stall mono.Dur
	// FailuresMax is how many batches in a row may fail, for want of memory or otherwise (those of ErrModel not counted),
	// until the device counts as lost [16].
	FailuresMax int
	// Empty: a device without models is one, too: they come later (Load).
	Empty bool
	// Forgets: a device that was lost comes back without models, which are loaded by order (Paged); it is Empty, too.
	Forgets bool
	// Losing is told first that the device is lost, before its batches are finished: who takes
	// it out of service may want to forget them. It does not wait for anything.
	Losing func(err error)
	// Lost is told once of it, when all its batches have been finished, from a goroutine of
	// its own.
	Lost func(err error)
	// Warn is told what is no reason to stop: no NUMA node, memory that cannot be given back.
	Warn func(err error)
}

func (o Options) complete() Options {
	if o.HangFactor == 0 {
		o.HangFactor = 20
	}
	if o.Hang == 0 {
		o.Hang = 2 * mono.Second
	}
	if o.Stall == 0 {
		o.Stall = 600 * mono.Second
	}
	if o.FailuresMax == 0 {
		o.FailuresMax = 16
	}
	o.Empty = o.Empty || o.Forgets
	if o.Losing == nil {
		o.Losing = func(error) {}
	}
	if o.Lost == nil {
		o.Lost = func(error) {}
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	return o
}

// Stats are what a device has done since it was made. Copied and Hidden are spans of copies,
// and the part of them during which a batch executed.
type Stats struct {
	Batches, Failed atomic.Int64
	Copied, Hidden  atomic.Int64 // ns
	Lost            atomic.Int64 // times
	Memory          atomic.Int64 // bytes that models, inputs and outputs hold of the device
	Staged          atomic.Int64 // bytes of pinned memory of its own, for models of several tensors
}

// Device is one GPU with its models. It implements executor.Pipelined. It may be lost and
// reopened; each time between is a pipeline.
type Device struct {
	rt    Runtime // Immutable.
	o     Options // Immutable.
	stats Stats

	life atomic.Pointer[pipeline] // the last one; lost ones, too

	asides atomic.Int64 // the last one's index

	quit     chan struct{} // closed: nothing is opened any more
	quitting sync.Once

	loading sync.Mutex // Held while a model is loaded later.

	mu     sync.Mutex // Guards what follows.
	models []*Model   // nil: refused, or there is none in this slot
	begun  *pipeline  // the last one, also where it could not be opened
	closed bool
}

var (
	_ executor.Pipelined = (*Device)(nil)

	errClosed = errors.New("the device is closed")
	errFull   = fmt.Errorf("more than %d batches at a time", Depth)
)

// NewDevice loads the models on a thread of the device and makes all that batches will need.
// It takes the context over, also when it fails. A Batch's Model is an index into models;
// those that are refused, with an error each, fail. Where none is left there is no device.
func NewDevice(c Context, rt Runtime, models []Model, o Options) (*Device, []*RefusedError, error) {
	d := &Device{rt: rt, o: o.complete(), quit: make(chan struct{})}
	for i := range models {
		m := models[i]
		if m.Sizes == nil {
			m.Sizes = Ladder(m.Spec.MaxBatch)
		}
		d.models = append(d.models, &m)
	}
	refused, err := d.open(c)
	if err != nil {
		return nil, refused, err
	}
	for i, s := range d.life.Load().models {
		if s != nil {
			d.models[i] = s.m // without graphs, perhaps
		}
	}
	for _, r := range refused {
		d.models[r.Index] = nil
	}
	return d, refused, nil
}

// Reopen brings a lost device back on a new context of the same GPU, with the models that it
// had, or (Options.Forgets) without any. It takes the context over. While a thread still hangs in the driver the GPU cannot be
// reopened: its context is one for the whole process.
func (d *Device) Reopen(c Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.released(); err != nil {
		return errors.Join(err, c.Close())
	}
	if d.o.Forgets {
		clear(d.models)
	}
	refused, err := d.open(c)
	if err == nil && len(refused) > 0 {
		p := d.life.Load()
		p.close()
		_ = within(closeMax, func() error { <-p.done; return nil })
		return refused[0]
	}
	return err
}

// Released is nil where a lost device has given all back, and Reopen may be tried. While
// something is opened it waits for that.
func (d *Device) Released() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.released()
}

// released is Released. Caller holds mu.
func (d *Device) released() error {
	p := d.life.Load()
	if d.closed {
		return errClosed
	}
	if p.holds() && !p.gone.Load() {
		return fmt.Errorf("%s is not lost", p.name())
	}
	if p.holds() || d.begun.holds() {
		return fmt.Errorf("%w: %s: a thread of it is still in the driver, which has one context for the process: restart the backend if it stays", ErrLost, p.name())
	}
	return nil
}

// Fail makes the device lost, for what is known of it from elsewhere: memory errors, say. All
// that it has is given back, so that the GPU can be reset or reopened.
func (d *Device) Fail(why error) { d.life.Load().lose(why) }

// open begins a life.
func (d *Device) open(c Context) ([]*RefusedError, error) {
	p, refused, err := newPipeline(d, c)
	d.begun = p
	if err == nil {
		d.life.Store(p)
	}
	return refused, err
}

// Keep takes the models out of service that are not in indices: a Batch's Model is an index
// into what is left. It is for pools whose devices do not all have room for the same models;
// nothing may be under way.
func (d *Device) Keep(indices []int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var kept []*Model
	for _, i := range indices {
		kept = append(kept, d.models[i])
	}
	d.models = kept
	d.life.Load().keep(indices)
}

// Models are what it serves, as it runs them, in the order of their indices; refused ones are nil.
func (d *Device) Models() []*Model {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.models)
}

// Stats are its counters.
func (d *Device) Stats() *Stats { return &d.stats }

// Depth implements executor.Pipelined.
func (d *Device) Depth() int { return Depth }

// Launch implements executor.Device. A lost device fails the batch at once.
func (d *Device) Launch(b *executor.Batch) {
	p := d.life.Load()
	if err := p.launch(b); err != nil {
		if errors.Is(err, ErrLost) {
			<-p.told // who forgets what a lost device has is to forget this one, too
		}
		d.stats.Failed.Add(1)
		now := mono.Now()
		b.Finish(now, now, err)
	}
}

// leave has nothing opened any more.
func (d *Device) leave() { d.quitting.Do(func() { close(d.quit) }) }

// closeMax bounds what Close waits for a device that gives its things back.
const closeMax = 2 * time.Second

// Close implements executor.Device: what was launched is finished, and all is given back. A
// device that hangs is left alone, with its threads; one that is being reopened is not.
func (d *Device) Close() {
	d.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.closed = true
	p := d.life.Load()
	p.close()
	select { // the watchdog sees to it that one of them comes
	case <-p.waited:
	case <-p.dropped:
	}
	given := within(closeMax, func() error {
		<-p.done
		<-d.begun.done
		return nil
	})
	if given != nil {
		d.o.Warn(fmt.Errorf("%s: the driver does not give back what it had: its thread is left alone", p.name()))
	}
}
