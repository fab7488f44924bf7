package batching

import "github.com/symphony-serving/symphony/transport/mono"

const (
	// shortfallPercent: below this percentage of the target's requests per GPU
	// second a batch is far from carrying the load.
	shortfallPercent = 90
	// paybackMax is how many SLOs a shed request may take to pay for itself.
	paybackMax = 3
)

// shedding reports whether the policy gives up the head, behind which b fit, for
// a larger batch.
//
// Old heads stand in the way: they are due soon, so few fit behind them, so
// the GPU serves few, so the next head is older. A batch of the target or more
// carries the arrivals and works the backlog off; a smaller one lets it grow,
// until batches of one are left. So heads are given up below the target, if
// more than one request is left over (else the batch would not grow), and
// only where it pays:
//
// Requests come gap apart and one more fits for each alpha, so a slot costs
// alpha/gap heads. It saves beta/l(b) of a request's GPU time in this batch and
// in each that follows until the backlog is gone. Held against the arrivals,
// which grow the backlog by that same shortfall, the price is earned back after
//
//	payback = alpha * b * l(b) / beta
//
// however far below the target b is. Small where batching is strong (ResNet50
// of Table 2: 51 ms at b = 13), large where batches are large already (SLO 100
// ms: 600 ms) or do not pay (BERT: 1.2 s): there a surge passes sooner, and
// only a batch that falls far short of the target is worth a head. So it is, too,
// where other models compete for the GPUs: a model that is behind has the least
// latest, is served first, and catches up without giving anything up. And where
// idle GPUs take all that waits there is no backlog to work off: see spread.
//
// Rejected: a forecast of the losses over the queue (as good,
// far more code and work).
func (m *Model) shedding(b int) bool {
	if m.cfg.Policy == PolicyHead || m.setting.Head || m.setting.Shed || b >= m.target || m.queue.Len() <= b+1 {
		return false
	}
	if m.overloaded || !m.efficiency(b, m.target, shortfallPercent) {
		return true
	}
	l, alpha := m.cfg.Profile.Latency(b), m.slope(b)
	beta := l - alpha*mono.Dur(b)
	return !m.rivals && float64(alpha)*float64(b)*float64(l) <= paybackMax*float64(m.cfg.SLO)*float64(beta)
}

// spread reports whether the GPUs of the model's part that have nothing to do, beside the one that takes b, could take all that waits behind
// these at once, each what fits behind the first that is left: after a pause, all that came in it is there, and so are the GPUs. O(spreadMost log max batch).
func (m *Model) spread(b int, now mono.Time) bool {
	at := b
	for n := m.unused(); n > 0 && at < m.queue.Len(); n-- {
		at += m.fit(m.deadline(at), now, mono.Past) // one at least: the head before it fits
	}
	return at >= m.queue.Len()
}

// spreadMost bounds how many GPUs spread counts with. Batches grow with each; a backlog that takes more is worked off as ever.
const spreadMost = 16

// unused is the model's part of the other GPUs that have nothing to do.
func (m *Model) unused() int {
	n := m.others
	if m.share > 0 && m.gpus > 0 {
		n = min(n, int(int64(n)*int64(m.share)/(int64(OneGPU)*int64(m.gpus))))
	}
	return min(n, spreadMost)
}
