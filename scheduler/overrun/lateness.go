package overrun

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	lateSlots = 8           // of so long a memory
	lateSlot  = mono.Second // each
	lateRank  = 3           // the bound is the third largest
)

// Lateness estimates for how long a scheduler stands still now and then: how late
// its orders leave, or its timers fire, when its thread is not woken in time.
// The bound is the longest span that came at least three times in the last eight
// seconds. Give it one sample for each turn, the turn's latest: a pause counts
// once, whatever it held up.
//
// Such a bound is dear where GPUs are scarce: batches that start 5 ms early are
// smaller, and 1 to 5 % of the goodput are gone. So it is spent where a GPU is
// idle only (batching.Delay.Late), and there it may be generous.
//
// Rejected: a high percentile of all orders. What a pause of 5 ms every 200 ms
// does to the worst of them is at the p99.9, and those that it delays most are
// dropped, so that their lateness is never seen.
type Lateness struct {
	largest [lateSlots][lateRank]mono.Dur // of each slot, in falling order
	slot    int                           // the one that fills
	end     mono.Time                     // when it is full
	current mono.Dur
}

// Add takes a turn; true when the bound changed by enough to matter, which it
// does once a second at most: each change forms every candidate anew.
func (l *Lateness) Add(now mono.Time, late mono.Dur) bool {
	changed := now >= l.end && l.turnOver(now)
	for i := range l.largest[l.slot] {
		if k := &l.largest[l.slot][i]; late > *k {
			late, *k = *k, late
		}
	}
	return changed
}

// turnOver makes the bound anew and begins a slot; those that nothing came in
// are empty.
func (l *Lateness) turnOver(now mono.Time) bool {
	var all [lateSlots * lateRank]mono.Dur
	for i, s := range l.largest {
		copy(all[i*lateRank:], s[:])
	}
	slices.Sort(all[:])
	before := l.current
	l.current = all[len(all)-lateRank]
	for n := 1 + min(lateSlots-1, now.Sub(l.end)/lateSlot); n > 0; n-- {
		l.slot = (l.slot + 1) % lateSlots
		l.largest[l.slot] = [lateRank]mono.Dur{}
	}
	l.end = now.Add(lateSlot)
	return max(before-l.current, l.current-before) > max(2*step, before/8)
}

// Bound is the span that the lateness calls for.
func (l *Lateness) Bound() mono.Dur { return l.current }
