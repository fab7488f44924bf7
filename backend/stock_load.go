package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/backend/repository"
)

// loader fills and empties the slots of a pool's devices. It is called by many goroutines, for
// one device by one at a time; what runs there goes on meanwhile.
type loader interface {
	// check says why devices of this kind cannot run a model. It ends early with ctx, if it takes long.
	check(ctx context.Context, m *repository.Model) error
	// need is what a model will take of a device's memory, as far as that can be said before.
	need(m *repository.Model) need
	// held is what one takes that is loaded.
	held(device, slot int, m *repository.Model) need
	// load fills a device's slot. When it ends because of ctx, or otherwise fails, the slot is
	// as before. It says what the model has taken.
	load(ctx context.Context, device, slot int, m *repository.Model) (need, error)
	// unload empties it; nothing of the slot is under way.
	unload(device, slot int)
}

// errRoom: a device has not enough memory for a model.
var errRoom = errors.New("not enough memory")

// kick has a device load what waits for it, if it does not do so. Caller holds mu.
func (s *stock) kick(d int) {
	at := &s.devices[d]
	if at.loading || s.closed || s.pick(d) == nil {
		return
	}
	at.loading = true
	s.work.Go(func() {
		for s.loadNext(d) {
		}
	})
}

// pick is the next one that a device can load; nil: none can be now. What is unloaded is
// awaited: its memory may be needed. Caller holds mu.
func (s *stock) pick(d int) *entry {
	at := &s.devices[d]
	if at.leaving > 0 {
		return nil
	}
	if i := slices.IndexFunc(at.queue, func(e *entry) bool { return e.files == filesHere }); i >= 0 {
		return at.queue[i]
	}
	return nil
}

// loadNext loads one model; false: there is none that can be loaded now.
func (s *stock) loadNext(d int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.devices[d]
	e := s.pick(d)
	if e == nil || s.closed {
		at.loading = false
		return false
	}
	at.queue = slices.DeleteFunc(at.queue, func(o *entry) bool { return o == e })
	p := &e.on[d]
	if err := s.reserve(e, d); err != nil {
		p.stage = absent
		s.refuses(e, d, err)
		s.settle(e)
		return true
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	p.stage, p.cancel = loading, cancel
	s.takeSlot(e)
	slot, m, exec := e.slot, e.model, e.exec
	s.changed(e)
	s.mu.Unlock()
	took, err := s.p.loader.load(ctx, d, slot, m)
	if err == nil {
		s.p.executors[d].Put(slot, exec)
	}
	s.mu.Lock()
	p.cancel = nil
	at.static -= p.need.static
	if err == nil {
		p.stage, p.need = loaded, took
		at.static += took.static
	} else {
		p.stage, p.need = absent, need{}
		if ctx.Err() == nil {
			s.refuses(e, d, err)
		}
	}
	s.settle(e)
	return true
}

// refuses notes why a device has not a model. Caller holds mu.
func (s *stock) refuses(e *entry, d int, err error) {
	if e.model != nil {
		err = e.model.Explain(err)
	}
	if s.noRoomForBoth(e, d, err) {
		return
	}
	if e.on[d].err = err; errors.Is(err, errRoom) {
		s.devices[d].short = append(s.devices[d].short, e)
	}
	s.failed(e, err, false)
}

// reserve takes what a model needs of a device's memory. Caller holds mu.
func (s *stock) reserve(e *entry, d int) error {
	n := s.p.loader.need(e.model)
	if err := s.fits(n, d); err != nil {
		return err
	}
	e.on[d].need = n
	s.devices[d].static += n.static
	return nil
}

// fits holds a model against a device's bound: all that is loaded, and the largest that runs.
// Caller holds mu.
func (s *stock) fits(n need, d int) error { return s.fitsWithout(n, d, nil) }

// fitsWithout is fits if one of them were not there.
func (s *stock) fitsWithout(n need, d int, gone *entry) error {
	most := s.p.cfg.Memory
	if most == 0 || s.p.cfg.Kind == KindCUDA { // a GPU's memory is counted by its device
		return nil
	}
	dynamic := int64(0)
	for _, e := range s.slots {
		if e != nil && e != gone && e.on[d].stage == loaded {
			dynamic = max(dynamic, e.on[d].need.dynamic)
		}
	}
	free := most - s.devices[d].static - dynamic
	if gone != nil {
		free += gone.on[d].need.static
	}
	if want := n.static + max(0, n.dynamic-dynamic); want > free {
		return roomError(want, free, most)
	}
	return nil
}

func roomError(want, free, most int64) error {
	return fmt.Errorf("%w: it needs %s, %s is free of the device's %s: unload others, or raise the pool's memory", errRoom, inMiB(want), inMiB(max(0, free)), inMiB(most))
}

func inMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// graceTime is stock.grace: batches for a model are on their way until the scheduler has heard
// that it goes.
const graceTime = 300 * time.Millisecond

// leave empties a slot of a device once nothing of it is under way there.
func (s *stock) leave(e *entry, d, slot int, grace bool) {
	x := s.p.executors[d]
	if grace && !s.sleep(s.ctx, s.grace) {
		return
	}
	x.Drop(slot)
	for pause := time.Millisecond; x.Uses(slot); pause = min(2*pause, 20*time.Millisecond) {
		if !s.sleep(s.ctx, pause) {
			return // the backend ends, and closes the device with all that it has
		}
	}
	s.p.loader.unload(d, slot)
	s.left.add(departure{e, d}, s.departed)
}

// departure is a model that a device has unloaded.
type departure struct {
	e *entry
	d int
}

// departed takes note of some. Those who leave do not each wait for mu: of a thousand at a time,
// who takes the scheduler's documents, and batches after them, would be the last in the line.
func (s *stock) departed(some []departure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, gone := range some {
		e, d := gone.e, gone.d
		at := &s.devices[d]
		at.static -= e.on[d].need.static
		at.leaving--
		e.on[d].stage, e.on[d].need = absent, need{}
		s.settle(e)
		short := at.short
		at.short = nil
		for _, o := range short { // perhaps there is room now
			if errors.Is(o.on[d].err, errRoom) {
				o.on[d].err = nil
				s.settle(o)
			}
		}
		s.kick(d)
	}
}

// sleep is false when ctx ended it.
func (s *stock) sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
