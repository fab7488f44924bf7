package batching

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// crowd gives heads up until the batch is the largest that can be had now; b is what fits behind the first one.
//
// Where GPUs are crowded (Offer.Crowded) a good part of all requests is lost whatever is done, and the more of them the fewer a
// batch serves. The longest wait is due first: few fit behind it. Skipping it makes room for more of those that came later, until
// fewer are left than fit. What is skipped would be lost in their place.
//
// The target (drop_policy.go) does not do that for many models: on a small share of the GPUs no batch carries the arrivals.
func (m *Model) crowd(now, free mono.Time, b int, drops []Dropped) (int, []Dropped) {
	if m.cfg.Policy == PolicyHead || m.setting.Head || b == 0 {
		return b, drops
	}
	most := b
	for low, high := 1, m.queue.Len()-1; low <= high; { // what fits rises with those skipped, what is left falls
		mid := (low + high) / 2
		fits, left := m.fit(m.deadline(mid), now, free), m.queue.Len()-mid
		most = max(most, min(fits, left))
		if fits < left {
			low = mid + 1
		} else {
			high = mid - 1
		}
	}
	skip := 0
	for high := m.queue.Len() - most; skip < high; { // as few as it takes
		if mid := (skip + high) / 2; m.fit(m.deadline(mid), now, free) < most {
			skip = mid + 1
		} else {
			high = mid
		}
	}
	for range skip {
		drops = m.drop(wire.ReasonShed, true, drops)
	}
	return most, drops
}
