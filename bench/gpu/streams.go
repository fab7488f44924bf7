package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// slots are the places for batches: while one executes, the next is copied in.
const slots = 2

// pipeline is a model on three streams, as the device has it, with an event at the begin and
// at the end of everything.
type pipeline struct {
	c                cuda.Context
	m                *Model
	size             int
	copyIn, run, out cuda.Stream
	program          cuda.Program
	hostIn, hostOut  [slots][]byte
	deviceIn         [slots]cuda.Ptr
	deviceOut        [slots]cuda.Ptr
	marks            []marks
	closers          []func() error
	in, outOf        places
}

// marks are a batch's events.
type marks struct{ inFrom, inTo, runFrom, runTo, outFrom, outTo cuda.Event }

// overlapStreams queues batches in a row, without a device between, and reads their events.
func (d *Direct) overlapStreams(ctx context.Context, index int, one *overlapOf) error {
	if d.Driver == nil || d.Runtime == nil {
		return errors.New("no driver to queue copies with")
	}
	m := &d.Models[index]
	c, err := d.Driver.Open(d.Index)
	if err != nil {
		return err
	}
	var all []phases
	err = cuda.On(c, func() (err error) {
		p := &pipeline{c: c, m: m, size: one.Batch}
		defer func() { err = errors.Join(err, p.close()) }()
		if err = p.open(d.Runtime); err != nil {
			return err
		}
		if err = p.warm(ctx); err != nil {
			return err
		}
		if err = p.queue(ctx, overlapBatches); err != nil {
			return err
		}
		all, err = p.read()
		return err
	})
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	one.of(all)
	return nil
}

// keep makes sure that something is closed, behind what was made after it.
func (p *pipeline) keep(f func() error) { p.closers = append(p.closers, f) }

func (p *pipeline) close() error {
	var errs []error
	for _, s := range []cuda.Stream{p.copyIn, p.run, p.out} {
		if s != nil {
			errs = append(errs, s.Synchronize()) // what is queued uses all the rest
		}
	}
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

// open makes streams, memory, events and the program.
func (p *pipeline) open(r cuda.Runtime) (err error) {
	for _, s := range []*cuda.Stream{&p.copyIn, &p.run, &p.out} {
		if *s, err = p.c.NewStream(false); err != nil {
			return err
		}
		p.keep((*s).Close)
	}
	p.in, p.outOf = placesOf(p.m.Spec.Inputs, p.size), placesOf(p.m.Spec.Outputs, p.size)
	for i := range slots {
		if err = p.memory(i); err != nil {
			return err
		}
	}
	if p.program, err = r.Load(p.c, p.run, &p.m.Model); err != nil {
		return err
	}
	p.keep(p.program.Close)
	for i := range slots {
		if err = p.program.Bind(i, p.size, p.in.at(p.deviceIn[i]), p.outOf.at(p.deviceOut[i])); err != nil {
			return err
		}
	}
	return p.events(overlapBatches)
}

// memory is a slot's, on both sides.
func (p *pipeline) memory(slot int) (err error) {
	for _, h := range []struct {
		at    *[]byte
		bytes int
	}{{&p.hostIn[slot], p.in.bytes}, {&p.hostOut[slot], p.outOf.bytes}} {
		if *h.at, err = p.c.HostAlloc(h.bytes); err != nil {
			return err
		}
		mem := *h.at
		p.keep(func() error { return p.c.HostFree(mem) })
	}
	for _, d := range []struct {
		at    *cuda.Ptr
		bytes int
	}{{&p.deviceIn[slot], p.in.bytes}, {&p.deviceOut[slot], p.outOf.bytes}} {
		if *d.at, err = p.c.Alloc(int64(d.bytes)); err != nil {
			return err
		}
		at := *d.at
		p.keep(func() error { return p.c.Free(at) })
	}
	for i := range p.size {
		p.in.put(p.hostIn[slot], i, p.m.Item(i%max(1, p.m.Items)))
	}
	return nil
}

// places are a batch's tensors, one behind the other, each with its items back to back.
type places struct {
	from, item []int // of each tensor
	bytes      int
}

// tensorAlign is what kernels may expect of a tensor's begin.
const tensorAlign = 256

func placesOf(specs []catalog.TensorSpec, size int) (p places) {
	for _, s := range specs {
		n := int(s.ByteSize())
		p.from, p.item = append(p.from, p.bytes), append(p.item, n)
		p.bytes += (size*n + tensorAlign - 1) / tensorAlign * tensorAlign
	}
	return p
}

func (p *places) at(base cuda.Ptr) (out []cuda.Ptr) {
	for _, from := range p.from {
		out = append(out, base+cuda.Ptr(from))
	}
	return out
}

// put writes an item, tensor by tensor, as slabs have it.
func (p *places) put(to []byte, i int, data []byte) {
	for k, n := range p.item {
		copy(to[p.from[k]+i*n:][:n], data)
		data = data[n:]
	}
}

func (p *pipeline) events(n int) (err error) {
	p.marks = make([]marks, n)
	for i := range p.marks {
		m := &p.marks[i]
		for _, e := range []*cuda.Event{&m.inFrom, &m.inTo, &m.runFrom, &m.runTo, &m.outFrom, &m.outTo} {
			if *e, err = p.c.NewEvent(); err != nil {
				return err
			}
			p.keep((*e).Close)
		}
	}
	return nil
}

// warm runs the size a few times on each slot: kernels are chosen, clocks rise.
func (p *pipeline) warm(ctx context.Context) error {
	for i := range slots * warmRuns {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := errors.Join(p.run.CopyIn(p.deviceIn[i%slots], p.hostIn[i%slots]), p.program.Run(i%slots, p.size), p.run.Synchronize()); err != nil {
			return err
		}
	}
	return nil
}

// queue is n batches. The copy of the next one goes ahead of a run: Program.Run may wait.
func (p *pipeline) queue(ctx context.Context, n int) error {
	n = min(n, len(p.marks))
	if err := p.queueIn(0); err != nil {
		return err
	}
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i+1 < n {
			if err := p.queueIn(i + 1); err != nil {
				return err
			}
		}
		if err := errors.Join(p.queueRun(i), p.queueOut(i)); err != nil {
			return err
		}
	}
	return errors.Join(p.copyIn.Synchronize(), p.run.Synchronize(), p.out.Synchronize())
}

// queueIn waits until the slot's batch before has executed.
func (p *pipeline) queueIn(i int) error {
	slot, m := i%slots, &p.marks[i]
	if i >= slots {
		if err := p.copyIn.Wait(p.marks[i-slots].runTo); err != nil {
			return err
		}
	}
	return errors.Join(p.copyIn.Record(m.inFrom), p.copyIn.CopyIn(p.deviceIn[slot], p.hostIn[slot]), p.copyIn.Record(m.inTo))
}

// queueRun waits for its input, and until the slot's outputs before have left.
func (p *pipeline) queueRun(i int) error {
	m := &p.marks[i]
	err := p.run.Wait(m.inTo)
	if i >= slots {
		err = errors.Join(err, p.run.Wait(p.marks[i-slots].outTo))
	}
	return errors.Join(err, p.run.Record(m.runFrom), p.program.Run(i%slots, p.size), p.run.Record(m.runTo))
}

func (p *pipeline) queueOut(i int) error {
	slot, m := i%slots, &p.marks[i]
	return errors.Join(p.out.Wait(m.runTo), p.out.Record(m.outFrom), p.out.CopyOut(p.hostOut[slot], p.deviceOut[slot]), p.out.Record(m.outTo))
}

// read turns the events into phases, on the clock of the first.
func (p *pipeline) read() ([]phases, error) {
	first := p.marks[0].inFrom
	all := make([]phases, len(p.marks))
	for i := range p.marks {
		m, ph := &p.marks[i], &all[i]
		for _, k := range []struct {
			from, to cuda.Event
			at       *interval
		}{{m.inFrom, m.inTo, &ph.in}, {m.runFrom, m.runTo, &ph.run}, {m.outFrom, m.outTo, &ph.out}} {
			var err, err2 error
			k.at.from, err = k.from.Since(first)
			k.at.to, err2 = k.to.Since(first)
			if err := errors.Join(err, err2); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
