package cuda

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// hangFactor is how many times its own time a batch may take, beside Options.Hang, which
// allows for clocks that are low and for copies.
const hangFactor = 20

// patience is how long a batch may be the oldest. Caller holds mu.
func (p *pipeline) patience(s *slot) mono.Dur {
	return hangFactor*mono.Dur(s.model.lengths[s.rounded].Load()) + p.o.Hang
}

// watch is the watchdog: the device whose oldest batch does not end is lost, whichever of
// the threads has it, and however that thread hangs. It runs on a timer's goroutine, while
// there are batches: one look for each batch's patience, not for each batch.
func (p *pipeline) watch() {
	p.mu.Lock()
	if p.lost != nil || p.count == 0 {
		p.armed = false
		p.mu.Unlock()
		return
	}
	s := &p.slots[p.first]
	waited := mono.Now().Sub(p.since)
	if left := p.patience(s) - waited; left > 0 {
		p.watchdog.Reset(left.Std())
		p.mu.Unlock()
		return
	}
	err := fmt.Errorf("%w: model %s, a batch of %d has not ended after %v, and took %v before", ErrLost, s.model.m.Spec.Key(), s.size,
		waited, mono.Dur(s.model.lengths[s.rounded].Load()))
	p.mu.Unlock()
	p.lose(err)
}
