package batching

import "github.com/symphony-serving/symphony/transport/mono"

// capped is the largest batch under the setting's cap: the smallest one that comes to that percentage of the
// pooled batch's requests per GPU second; of the largest batch's that meets the SLO, where
// none can be staggered or the GPUs are not known yet. (By bisection: of a table with steps it may be a
// larger one.) The window of a batch opens at 95 % of that again (ripe).
//
// A batch holds its GPU to the end. Of l(b) = alpha*b + beta the last requests gain little: 88 % of what an
// endless batch would come to is reached at l = 8 beta, 95 % at 20 beta. Meanwhile a model with a tight SLO
// finds no GPU: 32 models on 11 GPUs, SLOs of 41 to 384 ms, ran batches of up to 207 ms, and the tightest
// model decided what the mix could carry (12 % more with a cap of 92: docs/decisions/0032).
// Where GPU time is what is scarce, a cap costs just what it leaves out: so it is
// a part of the setting, and scheduler/tuner tries it.
//
// Rejected: the same milliseconds for all models, which leave those with a large beta batches of one.
func (m *Model) capped() int {
	low, high := 1, m.pooled
	if high == 0 {
		high = m.cfg.Profile.Largest(m.cfg.SLO, 0)
	}
	whole := high
	for low < high {
		mid := (low + high) / 2
		if m.efficiency(mid, whole, mono.Dur(m.setting.Cap)) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
