package backend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/backend/repository"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// measureIfDue begins to measure a model where that is due: where it was ordered, or where a
// model without a profile is loaded, on a device that is in no sub-cluster if there is one. A
// GPU that serves others does it in its gaps (stock_gaps.go), processors do it beside the device.
// Caller holds mu.
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

// measure measures a model on a device, or beside it. One at a time, but for those that take long (turns).
func (s *stock) measure(ctx context.Context, e *entry, d int) {
	s.mu.Lock()
	m, slot, spec, serves := e.model, e.slot, *e.spec, e.profiled
	s.mu.Unlock()
	spec.MaxBatch = m.Spec.MaxBatch
	var r *profiler.Result
	leave, err := s.b.measuring.take(ctx, s.turnMost())
	if err == nil {
		if r, err = s.measureOn(ctx, m, d, slot, &spec, serves); err == nil {
			s.keepProfile(m, r)
		}
		leave()
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
	case ctx.Err() == nil && e.profiled && s.noRoom(err):
		s.unmeasured(e, err)
	case ctx.Err() == nil:
		s.failed(e, fmt.Errorf("it loads, but its profile cannot be made: %w", err), true)
	}
	s.settle(e)
}

// turnMost is how long a measurement keeps others waiting: on a GPU, of whose time it has a share,
// as long as it lasts.
func (s *stock) turnMost() time.Duration {
	if len(s.p.gpus) > 0 {
		return time.Hour
	}
	return turnMost
}

// measureOn measures a model that a device has, and may serve.
func (s *stock) measureOn(ctx context.Context, m *repository.Model, d, slot int, spec *catalog.ModelSpec, serves bool) (*profiler.Result, error) {
	on, err := s.runner(ctx, m, d, slot, serves)
	if err != nil {
		return nil, err
	}
	defer on.end()
	o := s.b.profiling(m, s.p.ladder(m))
	o.Longest = on.longest
	return profiler.Measure(ctx, on.device, on.slot, spec, o)
}

// keepProfile stores what was measured, and says so. The model's file is read for that.
func (s *stock) keepProfile(m *repository.Model, r *profiler.Result) {
	var path string
	var kept error
	nice.Run(nice.Most, func() { path, kept = profiler.Write(s.profileKey(m), r) })
	s.b.logProfile(m.Spec.Key(), r, path, kept)
}

// besider is a loader whose models are measured beside the devices, which serve on.
type besider interface {
	// beside is where a model of a device's slot can be measured. serves: the device serves it.
	beside(ctx context.Context, device, slot int, m *repository.Model, serves bool) (*runner, error)
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
	device  executor.Device
	slot    int                // the model's there
	exec    *executor.Executor // of a device that serves others: the model runs in its gaps. nil: it does not serve
	longest func() mono.Dur    // that a run may take there; nil: any
	end     func()
}

// runner is one for a model that a device has, which may be another device.
func (s *stock) runner(ctx context.Context, m *repository.Model, d, slot int, serves bool) (r *runner, err error) {
	switch l := s.p.loader.(type) {
	case besider:
		if serves {
			return s.besideServed(ctx, l, m, d, slot)
		}
		return l.beside(ctx, d, slot, m, false)
	case asider:
		r, err = l.aside(ctx, m)
	default:
		r = &runner{device: s.p.devices[d], slot: slot, exec: s.p.executors[d], end: func() {}}
	}
	if err != nil || r.exec == nil {
		return r, err
	}
	return s.inGaps(ctx, r), nil
}

// besideServed is one for a model that is served: it has the files' memory a second time, until end.
func (s *stock) besideServed(ctx context.Context, l besider, m *repository.Model, d, slot int) (*runner, error) {
	n := need{static: s.p.loader.need(m).static}
	s.mu.Lock()
	err := s.fits(n, d)
	if err == nil {
		s.devices[d].static += n.static
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	free := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.devices[d].static -= n.static
	}
	r, err := l.beside(ctx, d, slot, m, true)
	if err != nil {
		free()
		return nil, err
	}
	end := r.end
	r.end = func() {
		end()
		free()
	}
	return r, nil
}

func (s *stock) noRoom(err error) bool {
	l, ok := s.p.loader.(asider)
	return ok && l.noRoom(err) || errors.Is(err, errRoom)
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
