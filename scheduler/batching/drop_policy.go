package batching

import "github.com/symphony-serving/symphony/transport/mono"

const (
	// sheddingGain: a larger batch must serve so many more requests per GPU
	// second that the head's batch has at most this percentage of its rate.
	// Where batches hardly pay (BERT) nothing is ever shed.
	sheddingGain = 95
	// sheddingTrust: requests are shed when that loses at most this percentage of
	// what the forecast loses otherwise. Above 100 because a small batch also
	// costs requests that have not arrived yet.
	sheddingTrust = 120
)

// shed is how many heads the policy gives up for the batch that is about to
// start, where b fit behind the present head: 0, or enough to make a batch of
// the target size.
//
// All requests due before `reach`, the deadline behind which a target batch
// fits, are in its way. They are given up only when enough others are left to
// fill the target, when the larger batch makes better use of the GPU, and when
// keeping them would cost about as many requests later (forecast.go).
//
// Rejected: to shed whenever the target can be reached. With 10 models of
// ResNet50 on 8 GPUs (SLO 100 ms) that gave up 5 % of the goodput of
// PolicyHead (coretest, FlatTop, with sheddingTrust 1000000), for requests that
// the next free GPU could still have served. The forecast keeps them.
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
	start := max(now.Add(m.cfg.Delay.Of(m.target)), gpuFree)
	skip := m.queue.Below(int64(start.Add(p.Latency(m.target))))
	if waiting-skip < m.target {
		return 0
	}
	if 100*m.losses(skip, start, true) > sheddingTrust*m.losses(0, start, false) {
		return 0
	}
	return skip
}
