package batching

import "github.com/symphony-serving/symphony/transport/mono"

// sheddingGain is how inefficient, in percent of the target batch's requests
// per GPU second, the head's batch must be before requests are given up for a
// larger one. Measured with coretest (see ARCHITECTURE.md, "The drop target"):
// 100 sheds for nothing where batches hardly pay (BERT: 8 % less goodput than
// head), 80 gives up 4 % of ResNet50's goodput.
const sheddingGain = 90

// shed is how many heads the policy gives up for the batch that is about to
// start, where b fit behind the present head: 0, or enough to make a batch of
// the target size.
//
// All requests due before `reach`, the deadline behind which a target batch
// fits, are in its way. They are given up only when enough others are left to
// fill the target, and when the larger batch makes so much better use of the
// GPU that it pays. O(log n) in the queue's length.
func (m *Model) shed(b int, now, gpuFree mono.Time) int {
	waiting := m.queue.Len()
	if m.cfg.Policy == PolicyHead || b >= m.target || waiting <= b {
		return 0
	}
	p := m.cfg.Profile
	// b/l(b) against target/l(target), multiplied out: integers stay exact.
	if 100*mono.Dur(b)*p.Latency(m.target) >= sheddingGain*mono.Dur(m.target)*p.Latency(b) {
		return 0
	}
	reach := max(now.Add(m.cfg.Delay.Of(m.target)), gpuFree).Add(p.Latency(m.target))
	skip := m.queue.Below(int64(reach))
	if waiting-skip < m.target {
		return 0
	}
	return skip
}
