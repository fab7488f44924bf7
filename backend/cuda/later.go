package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Load loads a model into a slot of Batch.Model while others run, and says how much of the
// device's memory it has taken. Weights are read and memory is taken on a thread of the
// loading's own; a Program has one thread, so first runs go between the batches of others on
// the device's, one at a time, in gaps as far as there are any (gapMost).
func (d *Device) Load(ctx context.Context, slot int, m Model) (int64, error) {
	return d.bring(ctx, slot, m, 0, func(p *pipeline, s *served, _ mono.Dur) error { return d.have(p, slot, s.m, s) })
}

// bring loads a model, which keep then takes in. A device that cannot load because it is lost is lost to all, and who is told
// of that has been told when the loading ends. most is what it may take of the device; 0: what there is.
func (d *Device) bring(ctx context.Context, slot int, m Model, most int64, keep func(p *pipeline, s *served, took mono.Dur) error) (int64, error) {
	d.loading.Lock() // memory is counted, and gaps are for one
	defer d.loading.Unlock()
	begin := mono.Now()
	if m.Sizes == nil {
		m.Sizes = Ladder(m.Spec.MaxBatch)
	}
	d.mu.Lock()
	p, closed := d.life.Load(), d.closed
	d.mu.Unlock()
	if closed {
		return 0, errClosed
	}
	if !p.enter() {
		p.awaitTold()
		return 0, fmt.Errorf("%w: %s takes no models now", ErrLost, p.name())
	}
	defer p.loaders.Done()
	s, err := p.loadLater(ctx, &m, most)
	if plain := p.plain(&m, err); plain != nil {
		p.giveUp(s)
		begin = mono.Now() // from now on it is loaded so
		s, err = p.loadLater(ctx, plain, most)
	}
	if err == nil {
		err = keep(p, s, mono.Now().Sub(begin)-s.waited)
	}
	switch {
	case err == nil:
		return s.need, nil
	case errors.Is(err, ErrLost):
		p.lose(err)
		p.awaitTold()
	case errors.Is(err, ErrMemory):
		r := &RefusedError{Index: slot, Model: m.Spec.Key(), GPU: p.name(), Need: max(s.need, m.Weighed, 1), Err: err}
		r.Left, r.Budget = p.roomLater()
		if most > 0 {
			r.Left = min(r.Left, most)
		}
		err = r
	}
	p.giveUp(s)
	return 0, err
}

// awaitTold waits until who is to hear that the device is lost has heard it, if it is.
func (p *pipeline) awaitTold() {
	if p.gone.Load() {
		<-p.told
	}
}

// Held is how much of the device's memory a slot's model has; 0: there is none now.
func (d *Device) Held(slot int) int64 {
	if s := d.life.Load().model(slot); s != nil {
		return s.need
	}
	return 0
}

// have makes a model that is loaded one of the device's, also for the next life.
func (d *Device) have(p *pipeline, slot int, m *Model, s *served) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Load() != p || p.gone.Load() {
		return fmt.Errorf("%w: %s, while a model was loaded", ErrLost, p.name())
	}
	for len(d.models) <= slot {
		d.models = append(d.models, nil)
	}
	d.models[slot] = m
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.models) <= slot {
		p.models = append(p.models, nil)
	}
	p.models[slot] = s
	p.stats.Memory.Add(s.need)
	return nil
}

// Unload takes a model out of its slot. Nothing of the slot is under way.
func (d *Device) Unload(slot int) {
	d.mu.Lock()
	if slot < len(d.models) {
		d.models[slot] = nil
	}
	p := d.life.Load()
	d.mu.Unlock()
	p.takeOut(slot)
}

// takeOut gives back what a slot has; of a device that is lost, or closed, all is.
func (p *pipeline) takeOut(slot int) {
	_ = p.call(func() {
		p.calling.Store(true) // a session takes its time to end
		defer p.calling.Store(false)
		p.mu.Lock()
		s := p.modelLocked(slot)
		switch {
		case slot < 0:
			delete(p.asides, slot)
		case s != nil:
			p.models[slot] = nil
		}
		p.mu.Unlock()
		if s != nil {
			p.unloadModel(s)
			p.stats.Memory.Add(-s.need)
		}
	})
}

// enter lets somebody load; false: the device is lost, or ends. Who is in holds up the giving
// back.
func (p *pipeline) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost != nil || p.closing || p.over {
		return false
	}
	p.loaders.Add(1)
	return true
}

// call has f run on the thread of the programs, between batches. With an error f may be running
// yet, or not at all: a device of which a call does not end is lost.
func (p *pipeline) call(f func()) error {
	back := make(chan struct{})
	stall := time.NewTimer(p.o.Stall.Std())
	defer stall.Stop()
	calls, ending := p.calls, p.ending
	for {
		select {
		case calls <- func() {
			defer close(back)
			f()
		}:
			calls, ending = nil, nil // taken
		case <-back:
			return nil
		case <-ending:
			return fmt.Errorf("%w: %s", ErrLost, p.name())
		case <-p.dropped:
			return fmt.Errorf("%w: %s", ErrLost, p.name())
		case <-stall.C:
			p.lose(fmt.Errorf("a step of loading a model has not ended after %v", p.o.Stall))
			return fmt.Errorf("%w: %s", ErrLost, p.name())
		}
	}
}

// loadLater loads a model; with an error, what it had got so far, or nil: a thread of the loading is still at
// it, and sees to that itself.
func (p *pipeline) loadLater(ctx context.Context, m *Model, most int64) (*served, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // before a session is made for nobody
	}
	s := newServed(m)
	s.need, s.most = Depth*(s.in.bytes+s.out.bytes), most
	if mine, err := p.prepareApart(s); !mine {
		return nil, err
	} else if err != nil {
		return s, err
	}
	if err := p.try(func() error { return p.makeEvents(&s.marks.begin, &s.marks.end) }); err != nil {
		return s, err
	}
	if err := p.warmLater(ctx, s, &rests{busy: m.Busy, left: restsMost}); err != nil {
		return s, err
	}
	s.need = Depth*(s.in.bytes+s.out.bytes) + s.program.Memory()
	return s, p.fits(s)
}

// try is call for what can fail.
func (p *pipeline) try(f func() error) error {
	failed := make(chan error, 1)
	if err := p.call(func() { failed <- f() }); err != nil {
		return err
	}
	return <-failed
}

// prepareApart prepares on a thread of its own. One that hangs is left alone, and the device is
// lost: it is not given back before. mine: that thread is through with the model. Else it is not, and
// leaves to the device what it has got.
func (p *pipeline) prepareApart(s *served) (mine bool, err error) {
	loaded, alone := make(chan error), make(chan struct{})
	p.loaders.Add(1)
	s.m.File.Use() // that thread's: it may outlive who has the model loaded
	go func() {
		defer p.loaders.Done()
		defer s.m.File.Close()
		runtime.LockOSThread() // and never unlocked: whatever the driver keeps for the thread ends with it
		err := p.prepareLater(s)
		select {
		case loaded <- err:
		case <-alone:
			p.orphan(s)
		}
	}()
	stall := time.NewTimer(p.o.Stall.Std())
	defer stall.Stop()
	select {
	case err := <-loaded:
		return true, err
	case <-p.dropped:
	case <-stall.C:
		p.lose(fmt.Errorf("loading model %s has not ended after %v", s.m.Spec.Key(), p.o.Stall))
	}
	close(alone)
	return false, fmt.Errorf("%w: %s", ErrLost, p.name())
}

func (p *pipeline) makeEvents(events ...*Event) (err error) {
	for _, e := range events {
		if *e, err = p.ctx.NewEvent(); err != nil {
			return err
		}
	}
	return nil
}

// prepareLater takes memory and loads the program, on a thread that is nobody else's.
func (p *pipeline) prepareLater(s *served) error {
	if err := p.ctx.Enter(); err != nil {
		return err
	}
	if err := p.fitsWith(s, max(s.need, s.m.Weighed)); err != nil {
		return err // before seconds go into a session that has to go again
	}
	zeroing, err := p.ctx.NewStream(false)
	if err != nil {
		return err
	}
	defer func() { p.give(zeroing.Close()) }()
	if err := p.makePlaces(s, zeroing); err != nil {
		return err
	}
	if err := p.makeOwnStages(s); err != nil {
		return err
	}
	if s.program, err = p.rt.Load(p.ctx, p.compute, s.m); err != nil {
		s.program = nil
		return err
	}
	s.need += s.program.Memory()
	return p.fits(s)
}

// makeOwnStages takes pinned memory for batches that must be rearranged: the slots' was made
// for those that were there then, and is in use.
func (p *pipeline) makeOwnStages(s *served) error {
	for i := range s.stages {
		for _, side := range []struct {
			l  *layout
			to *[]byte
		}{{&s.in, &s.stages[i].in}, {&s.out, &s.stages[i].out}} {
			n := side.l.item * s.m.Spec.MaxBatch
			if !side.l.staged() || n == 0 {
				continue
			}
			var err error
			if *side.to, err = p.ctx.HostAlloc(n); err != nil {
				return fmt.Errorf("%d bytes of pinned memory: %w", n, err)
			}
			p.stats.Staged.Add(int64(n))
		}
	}
	return nil
}

// warmLater binds each size in each slot and runs it, one run between two batches.
func (p *pipeline) warmLater(ctx context.Context, s *served, r *rests) error {
	patience := gapsMost
	for i := len(s.m.Sizes) - 1; i >= 0; i-- { // a runtime's own memory grows once that way
		n := s.m.Sizes[i]
		for at := range s.slots {
			for run := range 1 + warmRuns {
				if r.skips(at, run) {
					break
				}
				begin := time.Now()
				if err := p.rest(ctx, r); err != nil {
					return err
				}
				s.waited += mono.Dur(time.Since(begin))
				begin = time.Now()
				if err := p.gap(ctx, min(gapMost, patience)); err != nil {
					return err
				}
				waited := time.Since(begin)
				patience, s.waited = patience-waited, s.waited+mono.Dur(waited)
				if err := p.try(func() (err error) { r.last, err = p.runOnce(s, at, i, run); return err }); err != nil {
					return fmt.Errorf("first run of a batch of %d: %w", n, err)
				}
			}
		}
	}
	return nil
}

// runOnce is a first run, or a later one, which is timed, of a size in a slot. On the run thread.
func (p *pipeline) runOnce(s *served, at, i, run int) (mono.Dur, error) {
	p.calling.Store(true)
	defer p.calling.Store(false)
	n := s.m.Sizes[i]
	if run == 0 {
		if err := s.program.Bind(at, n, s.in.pointers(s.slots[at].in), s.out.pointers(s.slots[at].out)); err != nil {
			return 0, err
		}
	}
	length, err := p.warmRun(&s.marks, s, at, n)
	if err == nil && run > 0 {
		s.lengths[i].Store(max(s.lengths[i].Load(), int64(length)))
	}
	return length, err
}

// gapMost is how long a first run waits for a device that has nothing to do, and gapsMost how
// long those of a model do together: a device that is never without work is to get new models,
// too.
const (
	gapMost  = 50 * time.Millisecond
	gapsMost = time.Second
)

// gap waits for a moment without batches, for a while.
func (p *pipeline) gap(ctx context.Context, most time.Duration) error {
	for end := time.Now().Add(most); ; time.Sleep(time.Millisecond) {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.mu.Lock()
		free, lost := p.count == 0, p.lost
		p.mu.Unlock()
		if lost != nil {
			return lost
		}
		if free || time.Now().After(end) {
			return nil
		}
	}
}

// giveUp gives back what a model had got; of a device that ends, with the rest. nil: that is another's.
func (p *pipeline) giveUp(s *served) {
	if s == nil {
		return
	}
	p.orphan(s)
	_ = p.call(func() { // with an error it may run yet: so it looks whether the model is still there
		p.mu.Lock()
		i := slices.Index(p.orphans, s)
		if i >= 0 {
			p.orphans = slices.Delete(p.orphans, i, i+1)
		}
		p.mu.Unlock()
		if i >= 0 {
			p.calling.Store(true)
			defer p.calling.Store(false)
			p.unloadModel(s)
		}
	})
}

// orphan leaves a model to the giving back of the device.
func (p *pipeline) orphan(s *served) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphans = append(p.orphans, s)
}

// roomLater is room, from a thread of nobody's.
func (p *pipeline) roomLater() (left, budget int64) {
	type room struct{ left, budget int64 }
	back := make(chan room, 1)
	if p.call(func() {
		left, budget := p.room()
		back <- room{left, budget}
	}) != nil {
		return 0, p.o.Budget
	}
	r := <-back
	return r.left, r.budget
}
