package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// measureIfDue begins to measure a model where that is due: where it was ordered, or where a
// model without a profile is loaded, on a device that is in no sub-cluster if there is one. A
// device that serves others does it in its gaps. Caller holds mu.
func (s *stock) measureIfDue(e *entry) {
	if e.gone || s.closed || e.measuring >= 0 || e.err != nil || e.next != nil {
		return
	}
	at, rank := -1, 0
	for d := range e.on {
		ordered := e.measureOn[d]
		if ordered && e.measured { // there is nothing to be measured: tell what there is
			e.measureOn[d], ordered = false, false
			e.respecify()
		}
		p, r := &e.on[d], 0
		switch {
		case p.stage != loaded || !p.wanted:
		case ordered:
			r = 3
		case !e.profiled && s.devices[d].in == catalog.Nowhere:
			r = 2
		case !e.profiled:
			r = 1
		}
		if r > rank {
			at, rank = d, r
		}
	}
	if at < 0 {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	e.measuring, e.stopRuns = at, cancel
	s.changed(e)
	s.work.Go(func() {
		defer cancel()
		s.measure(ctx, e, at)
	})
}

// measure measures a model on a device, in its gaps. One at a time: devices of a host share it.
func (s *stock) measure(ctx context.Context, e *entry, d int) {
	var r *profiler.Result
	err := ctx.Err()
	s.mu.Lock()
	m, slot, spec := e.model, e.slot, *e.spec
	s.mu.Unlock()
	spec.MaxBatch = m.Spec.MaxBatch
	select {
	case s.b.measuring <- struct{}{}:
		o := s.b.cfg.Profiling
		o.Ladder = s.p.ladder(m)
		if o.Budget == 0 {
			o.Budget = 1500 * mono.Millisecond
		}
		device, at, end, none := s.runner(ctx, m, d, slot)
		if err = none; err == nil {
			r, err = profiler.Measure(ctx, &gaps{ctx, device, s.p.executors[d]}, at, &spec, o)
			end()
		}
		<-s.b.measuring
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		path, kept := profiler.Write(s.profileKey(m), r)
		s.b.logProfile(spec.Key(), r, path, kept)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.measuring = -1
	switch {
	case err == nil:
		with := *e.spec
		with.Profile = r.Profile.Doc()
		e.spec, e.profiled, e.measured, e.measureOn[d] = &with, true, true, false
		e.respecify()
		s.p.setSpec(e.slot, e.spec)
	case ctx.Err() == nil:
		s.failed(e, fmt.Errorf("it loads, but its profile cannot be made: %w", err), true)
	}
	s.settle(e)
}

// asider is a loader whose devices have a model only while it is ordered.
type asider interface {
	// aside is where a model can be measured that no order has loaded, for a device of the pool, and its slot there.
	aside(ctx context.Context, m *repository.Model, device int) (executor.Device, int, func(), error)
}

// runner is what a model of a stock is measured on, and its slot there.
func (s *stock) runner(ctx context.Context, m *repository.Model, d, slot int) (device executor.Device, at int, end func(), err error) {
	if l, ok := s.p.loader.(asider); ok {
		return l.aside(ctx, m, d)
	}
	return s.p.devices[d], slot, func() {}, nil
}

// gaps is a device for single runs between its orders.
type gaps struct {
	ctx    context.Context
	device executor.Device
	exec   *executor.Executor
}

// gapPause is waited between two looks whether a device is free.
const gapPause = time.Millisecond

// Launch implements executor.Device; it waits until the device is free.
func (g *gaps) Launch(b *executor.Batch) {
	for !g.exec.Hold() {
		if g.ctx.Err() != nil {
			now := mono.Now()
			b.Finish(now, now, g.ctx.Err())
			return
		}
		time.Sleep(gapPause)
	}
	run := *b
	run.Finish = func(start, end mono.Time, err error) {
		g.exec.Release()
		b.Finish(start, end, err)
	}
	g.device.Launch(&run)
}

// Close implements executor.Device: it is not ours.
func (g *gaps) Close() {}
