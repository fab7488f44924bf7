package cuda

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// runThread loads the models, queues programs and copies out, and gives everything back: a
// Program has one thread.
func (p *pipeline) runThread(models []*Model, loaded chan error) {
	defer close(p.done)
	err := p.load(models)
	select {
	case loaded <- err:
	case <-p.left:
		err = errClosed
	}
	if err != nil {
		close(p.ending)
		p.unload()
		return
	}
	for p.runNext() {
	}
	close(p.ending)
	close(p.waits)
	<-p.waited
	p.loaders.Wait()
	p.unload()
}

// runNext serves a batch or a call; false: there will be none.
func (p *pipeline) runNext() bool {
	select {
	case s, ok := <-p.runs:
		if !ok {
			return false
		}
		if s.err == nil && !p.gone.Load() {
			s.err = p.run(s)
		}
		p.waits <- s
	case f := <-p.calls:
		f()
	}
	return true
}

// copyThread queues copies in. It is not the one that queues programs, as that may have to
// wait until one has run: the next batch's inputs are to be copied meanwhile.
func (p *pipeline) copyThread() {
	defer close(p.runs)
	p.settle()
	entered := p.ctx.Enter()
	for s := range p.copies {
		s.err = entered
		if entered == nil && !p.gone.Load() {
			s.err = p.copyIn(s)
		}
		p.runs <- s
	}
}

// waitThread waits for batches and finishes them.
func (p *pipeline) waitThread() {
	defer close(p.waited)
	p.settle()
	entered := p.ctx.Enter()
	for s := range p.waits {
		if s.err == nil {
			s.err = entered
		}
		if !p.gone.Load() {
			p.complete(s)
		}
	}
}

// copyIn queues the copy of a batch's inputs. The slot's memory is free: the batch before in
// there has been waited for.
func (p *pipeline) copyIn(s *slot) error {
	if err := p.in.Record(s.inBegin); err != nil {
		return err
	}
	l, from := &s.model.in, s.input
	if l.staged() {
		from = stage(s.stageIn, s.model.stages[s.index].in)
		l.gather(from, s.input, s.size)
	}
	base := s.model.slots[s.index].in
	for _, t := range l.tensors {
		n := t.item * s.size
		if err := p.in.CopyIn(base+Ptr(t.at), from[:n:n]); err != nil {
			return err
		}
		from = from[n:]
	}
	return p.in.Record(s.inEnd)
}

// run queues the program, and the copy of the outputs behind it.
func (p *pipeline) run(s *slot) error {
	if err := p.compute.Wait(s.inEnd); err != nil {
		return err
	}
	if err := p.compute.Record(s.begin); err != nil {
		return err
	}
	failed := s.model.program.Run(s.index, s.model.m.Sizes[s.rounded])
	if err := p.compute.Record(s.end); err != nil {
		return errors.Join(failed, err)
	}
	if err := p.out.Wait(s.end); err != nil {
		return errors.Join(failed, err)
	}
	if failed == nil {
		if err := p.copyOut(s); err != nil {
			return err
		}
	}
	if err := p.out.Record(s.outEnd); err != nil {
		return errors.Join(failed, err)
	}
	s.marked = true // also of one that failed: what was queued of it ends there
	return failed
}

// stage is the model's own, if it has one.
func stage(slots, own []byte) []byte {
	if own != nil {
		return own
	}
	return slots
}

func (p *pipeline) copyOut(s *slot) error {
	l, to := &s.model.out, s.output
	if l.staged() {
		to = stage(s.stageOut, s.model.stages[s.index].out)
	}
	base := s.model.slots[s.index].out
	for _, t := range l.tensors {
		n := t.item * s.size
		if err := p.out.CopyOut(to[:n:n], base+Ptr(t.at)); err != nil {
			return err
		}
		to = to[n:]
	}
	return nil
}

// complete waits until a batch is over on the device, and finishes it.
func (p *pipeline) complete(s *slot) {
	err := s.err
	if s.marked {
		err = errors.Join(err, s.outEnd.Synchronize())
	}
	now := mono.Now()
	var t past
	if err == nil {
		t, err = s.times(now)
	}
	if err != nil {
		p.fail(s, err)
		return
	}
	p.badRuns = 0
	if s.model.out.staged() {
		s.model.out.scatter(s.output, stage(s.stageOut, s.model.stages[s.index].out), s.size)
	}
	p.account(s, t)
	if finish := s.finish; p.take() { // the slot is another's from now on
		finish(t.begin, t.end, nil)
	}
}

// fail finishes a batch with an error, once nothing of it is under way. A device of which
// that cannot be said is lost, and so is one that does nothing but fail, unless the models are to blame (ErrModel).
func (p *pipeline) fail(s *slot, err error) {
	if !errors.Is(err, ErrLost) {
		if drained := p.drain(); drained != nil {
			err = fmt.Errorf("%w: %w, after %w", ErrLost, drained, err)
		}
	}
	if !errors.Is(err, ErrModel) { // what clients send must not take the device from others
		p.badRuns++
	}
	if !errors.Is(err, ErrLost) && p.badRuns >= p.o.FailuresMax {
		err = fmt.Errorf("%w: %d batches in a row have failed, the last one: %w", ErrLost, p.badRuns, err)
	}
	if errors.Is(err, ErrLost) {
		p.lose(err)
		return
	}
	err = fmt.Errorf("%s: model %s, a batch of %d: %w", p.name(), s.model.m.Spec.Key(), s.size, err)
	if finish := s.finish; p.take() {
		p.stats.Failed.Add(1)
		now := mono.Now()
		finish(now, now, err)
	}
}

// drain waits until the streams are empty.
func (p *pipeline) drain() error {
	for _, s := range []Stream{p.in, p.compute, p.out} {
		if err := s.Synchronize(); err != nil {
			return err
		}
	}
	return nil
}

// past is what happened to a batch, on the host's clock: inputs are copied from in to inEnd,
// outputs from end to outEnd.
type past struct{ in, inEnd, begin, end, outEnd mono.Time }

// times translates the device's times: now is the host's when the outputs were there. Who
// waits is woken some 10 us after that, so all seems as much later.
func (s *slot) times(now mono.Time) (past, error) {
	t := past{outEnd: now}
	out, err := s.outEnd.Since(s.end)
	if err != nil {
		return t, err
	}
	length, err := s.end.Since(s.begin)
	if err != nil {
		return t, err
	}
	in, err := s.end.Since(s.inBegin)
	if err != nil {
		return t, err
	}
	copied, err := s.inEnd.Since(s.inBegin)
	if err != nil {
		return t, err
	}
	t.end = now.Add(-out)
	t.begin, t.in = t.end.Add(-max(0, length)), t.end.Add(-in)
	t.inEnd = t.in.Add(copied)
	return t, nil
}

// account counts a batch, and which of its copies, and of those of the batch before, others'
// executions have hidden.
func (p *pipeline) account(s *slot, t past) {
	i := s.rounded
	s.model.lengths[i].Store(max(s.model.lengths[i].Load(), int64(t.end.Sub(t.begin))))
	p.stats.Batches.Add(1)
	p.stats.Copied.Add(int64(t.inEnd.Sub(t.in) + t.outEnd.Sub(t.end)))
	p.stats.Hidden.Add(int64(overlap(t.in, t.inEnd, p.prev.begin, p.prev.end) + overlap(p.prev.end, p.prev.outEnd, t.begin, t.end)))
	p.prev = t
}

// overlap is the span that two intervals share.
func overlap(from, to, from2, to2 mono.Time) mono.Dur {
	return max(0, min(to, to2).Sub(max(from, from2)))
}
