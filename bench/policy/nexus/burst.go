package nexus

import (
	"math"

	"github.com/symphony-serving/symphony/transport/mono"
)

// burstDeviations is the 99th percentile of the normal distribution: goodput is
// judged by p99.
const burstDeviations = 2.33

// burstOf is what Poisson arrivals in half an SLO, the longest time in which a
// batch of B gathers, have above their rate once in a hundred times. For very
// low rates the normal distribution says too much. That costs nothing: their
// batches are of one in any case.
//
// It takes the whole SLO, where a session takes the network's delay off: the
// bound of that delay may exceed the SLO (TCP, section 5.6), and what is left
// would have no root. With RDMA's 33 us and an SLO of 20 ms the burst is smaller
// by less than a thousandth of itself.
func burstOf(rate float64, slo mono.Dur) float64 {
	return float64(burstDeviations * math.Sqrt(2*rate/slo.Seconds()))
}

// addBursts puts the bursts on top of the rates if the GPUs can carry the rates.
// If they cannot, the bursts would take GPUs from the models that use them best,
// when not even the rates can be served.
func (p *planner) addBursts(gpus int) {
	if _, ok := p.pack(1, gpus); !ok {
		return
	}
	for i := range p.sessions {
		p.sessions[i].rate += p.sessions[i].burst
	}
}
