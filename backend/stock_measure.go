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
	if e.gone || s.closed || e.measuring >= 0 || e.err != nil || e.later || e.next != nil {
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
		var on *runner
		if on, err = s.runner(ctx, m, d, slot); err == nil {
			r, err = profiler.Measure(ctx, &gaps{ctx, on.device, on.exec}, on.slot, &spec, o)
			on.end()
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
		e.learning.doubted = false
		with := *e.spec
		with.Profile = r.Profile.Doc()
		e.spec, e.profiled, e.measured, e.measureOn[d] = &with, true, true, false
		e.respecify()
		s.p.setSpec(e.slot, e.spec)
	case e.learning.doubted:
		s.undoubted(e, d, err)
	case ctx.Err() == nil && e.profiled && s.noRoom(err):
		s.unmeasured(e, err)
	case ctx.Err() == nil:
		s.failed(e, fmt.Errorf("it loads, but its profile cannot be made: %w", err), true)
	}
	s.settle(e)
}

// asider is a loader whose devices have a model only while it is ordered.
type asider interface {
	// aside is where a model can be measured that no order has loaded: on whichever device of the pool has most room.
	aside(ctx context.Context, m *repository.Model) (*runner, error)
	// noRoom reports whether that failed for want of room, which may be there later.
	noRoom(err error) bool
}

// runner is what a model is measured on, until end.
type runner struct {
	device executor.Device
	slot   int                // the model's there
	exec   *executor.Executor // in whose gaps it runs; nil from aside: the device's that it is measured for
	end    func()
}

// runner is one for a model that a device has, which may be another device.
func (s *stock) runner(ctx context.Context, m *repository.Model, d, slot int) (*runner, error) {
	if l, ok := s.p.loader.(asider); ok {
		r, err := l.aside(ctx, m)
		if err == nil && r.exec == nil {
			r.exec = s.p.executors[d]
		}
		return r, err
	}
	return &runner{s.p.devices[d], slot, s.p.executors[d], func() {}}, nil
}

func (s *stock) noRoom(err error) bool {
	l, ok := s.p.loader.(asider)
	return ok && l.noRoom(err)
}

// unmeasured leaves a model that has a profile as it is: it is measured when it is tried again. Caller holds mu.
func (s *stock) unmeasured(e *entry, err error) {
	if e.retry.news(err) {
		s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Err(err).Msg("it is served with the profile that it has: it cannot be measured now")
	}
	e.later = true
	s.retryLater(e)
	s.changed(e)
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
