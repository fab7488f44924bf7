package cuda

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// patience is how long a batch may be the oldest: many times its own time, for clocks may be
// low, and what copies and a busy host may take. Caller holds mu.
func (p *pipeline) patience(s *slot) mono.Dur {
	return mono.Dur(p.o.HangFactor)*mono.Dur(s.model.lengths[s.rounded].Load()) + p.o.Hang
}

// watch is the watchdog: the device whose oldest batch does not end is lost, whichever of
// the threads has it, and however that thread hangs. It runs on a timer's goroutine, while
// there are batches: a look now and then, not one for each batch.
//
// A batch that is over its time is given an eighth of it more: where the whole process was
// stopped the timer may come before those who would have finished the batch.
func (p *pipeline) watch() {
	p.mu.Lock()
	if p.lost != nil || p.count == 0 {
		p.armed = false
		p.mu.Unlock()
		return
	}
	s := &p.slots[p.first]
	waited, patience := mono.Now().Sub(p.since), p.patience(s)
	next := patience - waited
	if p.calling.Load() && waited < p.o.Stall { // the first run of a model that comes holds it up
		next = max(next, p.o.Hang)
	}
	if next <= 0 && p.suspect != p.since {
		p.suspect, next = p.since, patience/8
	}
	if next > 0 {
		p.watchdog.Reset(next.Std())
		p.mu.Unlock()
		return
	}
	err := fmt.Errorf("%w: model %s, a batch of %d has not ended after %v, and took %v before", ErrLost, s.model.m.Spec.Key(), s.size,
		waited, mono.Dur(s.model.lengths[s.rounded].Load()))
	p.mu.Unlock()
	p.lose(err)
}
