package nexus

import "github.com/symphony-serving/symphony/transport/mono"

// grow raises the batches of a packed node, one request at a time where there
// is least room for the rate, for as long as mayGrow allows. Then each item
// takes its share of requests by what the node can carry, not by what was left
// over for it.
//
// Packing makes batches just large enough for a rate that comes evenly. What a
// GPU runs may be larger: a round ends sooner than its duty cycle when its
// sessions have no full batches, and the SLOs bound the round, not the cycle.
func (p *planner) grow(n *node) {
	if s := &p.sessions[n.items[0].model]; s.tight {
		n.items[0].batch = s.limit // alone on its GPU: see residue
		n.work = s.profile.Latency(s.limit)
	}
	for {
		best := -1
		for i := range n.items {
			if p.mayGrow(n, i) && (best < 0 || roomier(n.items[best], n.items[i])) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		n.work += p.step(n.items[best])
		n.items[best].batch++
	}
	n.cycle = n.work
	for i := range n.items {
		k := &n.items[i]
		k.rate = float64(float64(k.batch)*1e9) / float64(n.work)
	}
}

// roomier is whether a's batch gathers for longer than b's.
func roomier(a, b item) bool {
	return float64(float64(a.batch)*b.rate) > float64(float64(b.batch)*a.rate)
}

// step is what one request more in its batch adds to the round.
func (p *planner) step(k item) mono.Dur {
	f := p.sessions[k.model].profile
	return f.Latency(k.batch+1) - f.Latency(k.batch)
}

// mayGrow is whether item i can have one request more: its limit is not
// exceeded, a request of any item that just missed a batch still waits for a
// whole round, runs and is in time, and each item keeps up with its rate.
//
// Only a tight model's limit is a bound of its own. For others it is B, and the
// SLO implies that but for rounding: l(batch) is part of the round, so
// 2*l(batch) <= SLO. It is asked for all the same, as l ends at MaxBatch.
func (p *planner) mayGrow(n *node, i int) bool {
	if k := n.items[i]; k.batch >= p.sessions[k.model].limit {
		return false
	}
	work := n.work + p.step(n.items[i])
	for j, k := range n.items {
		s, b := &p.sessions[k.model], k.batch
		if j == i {
			b++
		}
		if work+s.profile.Latency(b)+mono.Dur(b)*s.perItem > s.slo || float64(float64(b)*1e9) < float64(k.rate*float64(work)) {
			return false
		}
	}
	return true
}
