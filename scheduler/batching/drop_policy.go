package batching

import "github.com/symphony-serving/symphony/transport/mono"

// shed is how many heads the policy gives up for the batch that is about to
// start, where b fit behind the present head: 0, or enough to make a batch of
// the target size.
//
// All requests due before `reach`, the deadline behind which a target batch
// fits, are in its way. They are given up only when enough others are left to
// fill the target. O(log n) in the queue's length.
func (m *Model) shed(b int, now, gpuFree mono.Time) int {
	waiting := m.queue.Len()
	if m.cfg.Policy == PolicyHead || b >= m.target || waiting <= b {
		return 0
	}
	p := m.cfg.Profile
	reach := max(now.Add(m.cfg.Delay.Of(m.target)), gpuFree).Add(p.Latency(m.target))
	skip := m.queue.Below(int64(reach))
	if waiting-skip < m.target {
		return 0
	}
	return skip
}
