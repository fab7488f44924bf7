package batching

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Where far more comes than is served, a good part of all requests is lost whatever is done, and the more of them the fewer a
// batch serves. The longest wait is due first: few fit behind it. Skipping it makes room for more of those that came later, until
// fewer are left than fit. What is skipped would be lost in their place.
//
// That is done in two places. The target (drop_policy.go) does neither: on a small share of the GPUs no batch carries the arrivals.
//
//   - When a batch is taken, where GPUs are crowded (Offer.Crowded), and, for a few requests that are missing, where they are full (Offer.Full):
//     just beyond what GPUs do, batches have 15 where 16 fit, and are that much dearer.
//   - Whenever the candidate is formed, under the setting Shed, for as many requests as can gather and run within the SLO
//     (aims.gathered): what is called the window drop in the published code. A candidate is a full batch then, and has the latest start of
//     one, so that GPUs go to full batches; the other rules have them go to the one whose first request is due first, which few
//     fit behind. But it gives up what a GPU that becomes free early could have served. So it serves more beyond the peak, and at the
//     peak less (scheduler/tuner knows when).

// fullParts: on full GPUs a batch of at least one part in so many of most (the profile's largest, or the setting's cap) may be filled up.
const fullParts = 2

// fillUp gives heads up on full GPUs until a batch that is large already is the largest that can be had now, or none if that takes more heads
// than the batch grows by: each head that is lost buys at least one more request served. b is what fits behind the first one.
func (m *Model) fillUp(now, free mono.Time, b int, drops []Dropped) (int, []Dropped) {
	if fullParts*b < m.most {
		return b, drops
	}
	skip, most := m.skips(now, free, b, m.most)
	if skip > most-b {
		return b, drops
	}
	return m.skip(skip, now, free, drops)
}

// crowd gives heads up until the batch is the largest that can be had now, or enough; b is what fits behind the first one.
func (m *Model) crowd(now, free mono.Time, b, enough int, drops []Dropped) (int, []Dropped) {
	skip, _ := m.skips(now, free, b, enough)
	if skip == 0 {
		return b, drops
	}
	return m.skip(skip, now, free, drops)
}

// skips is how many heads at least stand in the way of the largest batch that can be had now, of enough at most, and how large that is;
// b is what fits behind the first one. O(log(queue) * log(max batch)).
func (m *Model) skips(now, free mono.Time, b, enough int) (skip, most int) {
	if m.cfg.Policy == PolicyHead || m.setting.Head || b == 0 || b >= min(enough, m.queue.Len()) {
		return 0, b
	}
	most = b
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
	most = min(most, enough)
	for high := m.queue.Len() - most; skip < high; { // as few as it takes
		if mid := (skip + high) / 2; m.fit(m.deadline(mid), now, free) < most {
			skip = mid + 1
		} else {
			high = mid
		}
	}
	return skip, most
}

// skip gives the first n up; what fits behind them is the batch.
func (m *Model) skip(n int, now, free mono.Time, drops []Dropped) (int, []Dropped) {
	for range n {
		drops = m.drop(wire.ReasonShed, true, drops)
	}
	return m.batchFor(now, free), drops
}

// shed is crowd for the setting Shed.
func (m *Model) shed(now, free mono.Time, b int, drops []Dropped) (int, []Dropped) {
	if !m.setting.Shed {
		return b, drops
	}
	return m.crowd(now, free, b, m.gathered, drops)
}

// gathers is how many requests of a model come, and then run, within the SLO, at the rate at which they come: on a few GPUs or on part of one
// no batch can be larger for long. Without a rate: those that run in half of it. No more than most.
func (m *Model) gathers(slo mono.Dur) int {
	budget, gap := slo/2, mono.Dur(0)
	if rate := m.arrivals.rate(); rate > 0 {
		budget, gap = slo, mono.Dur(min(1/rate, float64(slo)))
	}
	return min(m.most, max(1, m.cfg.Profile.Largest(budget, gap+m.cfg.Delay.Data)))
}
