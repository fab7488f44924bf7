package nexus

import "github.com/symphony-serving/symphony/transport/mono"

const (
	// scaleSteps bounds the doublings or halvings of the rates until a plan just
	// fits; 2^50 times less than any rate is no rate.
	scaleSteps = 50
	// bisectSteps narrows the factor to one part in a million.
	bisectSteps = 20
	// riseSteps of 1 % look above the first edge, up to 2.7 times as far.
	riseSteps = 100
)

// fill plans for exactly so many GPUs (doc.go, "The cluster").
func (p *planner) fill(gpus int) []node {
	if gpus == 0 || len(p.sessions) == 0 {
		return nil
	}
	p.addBursts(gpus)
	nodes := p.scale(gpus)
	if nodes == nil {
		return p.overfill(gpus)
	}
	return p.double(nodes, gpus)
}

// scale packs with the largest factor that fits, or returns nil.
//
// Packing is not monotone in the factor: a faster session may fill a GPU of
// its own, or merge better, and a plan fits again beyond one that did not.
// Bisection stops at any edge of what fits. So the factors above it are tried
// too, in steps of 1 %, up to where not even whole GPUs would do; the largest
// that fits is narrowed as the first was.
func (p *planner) scale(gpus int) []node {
	low, high := 0.0, 0.0 // low fits, high does not; 0: not found yet
	var best []node
	factor := 1.0
	for range scaleSteps {
		if nodes, ok := p.pack(factor, gpus); ok {
			best, low = nodes, factor
			factor *= 2
		} else {
			high = factor
			factor /= 2
		}
		if low > 0 && high > 0 {
			break
		}
	}
	if low == 0 || high == 0 {
		return best
	}
	best, low = p.narrow(gpus, best, low, high)
	if above, from := p.rise(gpus, low); above != nil {
		best, _ = p.narrow(gpus, above, from, float64(from*1.01))
	}
	return best
}

// narrow bisects between a factor whose plan is best and one that does not fit.
func (p *planner) narrow(gpus int, best []node, low, high float64) ([]node, float64) {
	for range bisectSteps {
		middle := (low + high) / 2
		if nodes, ok := p.pack(middle, gpus); ok {
			best, low = nodes, middle
		} else {
			high = middle
		}
	}
	return best, low
}

// rise is the plan of the largest factor that fits above an edge; nil when none
// does. No plan carries more than every GPU full of whole batches, which ends
// the steps.
func (p *planner) rise(gpus int, edge float64) (best []node, at float64) {
	need := 0.0 // GPUs, at a factor of 1
	for i := range p.sessions {
		need += p.sessions[i].rate / p.sessions[i].peak
	}
	factor := edge
	for range riseSteps {
		factor *= 1.01
		if float64(factor*need) > float64(gpus) {
			break
		}
		if nodes, ok := p.pack(factor, gpus); ok {
			best, at = nodes, factor
		}
	}
	return best, at
}

// double gives each GPU that is left over a copy of the fullest node, counted
// with the copies it has; copies share the rate. Then all nodes grow.
func (p *planner) double(nodes []node, gpus int) []node {
	copies := make([]int, len(nodes))
	for i := range copies {
		copies[i] = 1
	}
	for range gpus - len(nodes) {
		best := 0
		for i := range nodes {
			if nodes[i].full()/float64(copies[i]) > nodes[best].full()/float64(copies[best]) {
				best = i
			}
		}
		copies[best]++
	}
	out := make([]node, 0, gpus)
	for i, n := range nodes {
		for j := range n.items {
			n.items[j].rate /= float64(copies[i])
		}
		p.grow(&n)
		for range copies[i] {
			out = append(out, n) // copies share items, which nobody writes any more
		}
	}
	return out
}

// overfill places each session when no plan fits. The nodes of the lowest
// rates are the least there can be; those beyond the GPUs join the shortest
// rounds.
func (p *planner) overfill(gpus int) []node {
	factor := 1.0
	for range scaleSteps {
		factor /= 2
	}
	nodes, _ := p.pack(factor, len(p.sessions)) // a residue of each session at most
	out, over := nodes[:gpus], nodes[gpus:]
	for i := range out {
		p.enlarge(&out[i])
	}
	for _, n := range over {
		for _, k := range n.items {
			least := 0
			for i := range out {
				if out[i].work < out[least].work {
					least = i
				}
			}
			out[least].items = append(out[least].items, k)
			p.enlarge(&out[least])
		}
	}
	return out
}

// enlarge sets each batch of an overfull GPU to B.
func (p *planner) enlarge(n *node) {
	n.work = mono.Dur(0)
	for i := range n.items {
		s := &p.sessions[n.items[i].model]
		n.items[i].batch = s.batch
		n.work += s.profile.Latency(s.batch)
	}
}
