package nexus

import (
	"cmp"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// session is a model as the planner sees it.
type session struct {
	profile *profile.Profile
	slo     mono.Dur // less the fixed part of the network's delay
	perItem mono.Dur // the network's delay for each item of a batch
	rate    float64  // requests/s; addBursts puts burst on top
	burst   float64
	batch   int     // B: largest with 2*l(B) <= SLO
	peak    float64 // B/l(B), requests/s
	limit   int     // largest batch that grow gives: B; if tight, the largest in time
	tight   bool    // SLO below 2*l(1)
}

// newSession derives B. A tight model is planned in batches of one and alone
// on its GPUs, and so gets many: what comes while one runs is lost or nearly
// so. But such a GPU may run as many at once as the SLO lets run at all. Were
// the limit one as well, of two requests that find the GPU busy one would be
// lost, for no gain.
func newSession(p *profile.Profile, slo mono.Dur, delay batching.Delay, rate float64) session {
	s := session{profile: p, slo: slo - delay.Ctrl, perItem: delay.Data, rate: rate}
	s.batch = p.Largest(s.slo/2, (delay.Data+1)/2)
	s.limit = s.batch
	if s.batch == 0 {
		s.batch, s.limit, s.tight = 1, max(1, p.Largest(s.slo, delay.Data)), true
	}
	s.peak = float64(float64(s.batch)*1e9) / float64(p.Latency(s.batch))
	return s
}

// item is a session's part of a node.
type item struct {
	model wire.ModelID
	batch int
	rate  float64 // requests/s: packed here; after grow, that the GPU can take
}

// node is what one GPU runs: each item's batch once in each duty cycle.
type node struct {
	cycle mono.Dur
	work  mono.Dur // sum of l(batch); at most cycle but on an overfull GPU
	whole bool     // taken by one session, nothing may join
	items []item
}

// full is the share of the duty cycle that the GPU is busy.
func (n *node) full() float64 { return float64(n.work) / float64(n.cycle) }

// planner packs sessions; the buffers are kept between attempts.
type planner struct {
	sessions []session // by ModelID
	residues []node
}

// wholeNode is a GPU for one session alone, in batches of B.
func (p *planner) wholeNode(m int, rate float64) node {
	s := &p.sessions[m]
	l := s.profile.Latency(s.batch)
	return node{cycle: l, work: l, whole: true, items: []item{{wire.ModelID(m), s.batch, rate}}}
}

// residue is the node of the rate that fills no GPU. A rate so low that no
// second request comes in time has batches of one. A rate so near to a whole
// GPU's that its smaller batches could not keep up with it gets a whole GPU.
func (p *planner) residue(m int, rate float64) node {
	s := &p.sessions[m]
	gap := mono.Dur(math.Ceil(min(1e9/rate, float64(s.slo)+1)))
	b := s.profile.Largest(s.slo, s.perItem+gap)
	cycle := mono.Dur(math.Floor(float64(float64(b)*1e9) / rate))
	if b == 0 {
		b = 1
		cycle = s.slo - s.perItem - s.profile.Latency(1)
	}
	work := s.profile.Latency(b)
	if work > cycle {
		return p.wholeNode(m, rate)
	}
	return node{cycle: cycle, work: work, items: []item{{wire.ModelID(m), b, rate}}}
}

// pack plans the sessions with their rates scaled by factor; false when that
// takes more than so many GPUs.
func (p *planner) pack(factor float64, gpus int) ([]node, bool) {
	var nodes []node
	p.residues = p.residues[:0]
	for m := range p.sessions {
		s := &p.sessions[m]
		rate := float64(s.rate * factor)
		whole := math.Floor(rate / s.peak)
		if whole > float64(gpus-len(nodes)) {
			return nil, false
		}
		for range int(whole) {
			nodes = append(nodes, p.wholeNode(m, s.peak))
		}
		if rest := rate - float64(whole*s.peak); rest > 0 {
			p.residues = append(p.residues, p.residue(m, rest))
		}
	}
	slices.SortStableFunc(p.residues, func(a, b node) int { return cmp.Compare(b.full(), a.full()) })
	from := len(nodes) // nodes before it are full
	for _, r := range p.residues {
		if !p.join(nodes[from:], r) {
			nodes = append(nodes, r)
		}
		if len(nodes) > gpus {
			return nil, false
		}
	}
	return nodes, true
}

// join merges r into the node that is fullest with it; false when none takes
// it.
func (p *planner) join(nodes []node, r node) bool {
	if r.whole {
		return false
	}
	best, bestFull := -1, 0.0
	for i := range nodes {
		cycle := min(nodes[i].cycle, r.cycle)
		if nodes[i].whole {
			continue
		}
		work := p.workIn(nodes[i].items, cycle) + p.workIn(r.items, cycle)
		if full := float64(work) / float64(cycle); work <= cycle && full > bestFull {
			best, bestFull = i, full
		}
	}
	if best < 0 {
		return false
	}
	n := &nodes[best]
	n.cycle = min(n.cycle, r.cycle)
	n.items = append(n.items, r.items...)
	for i := range n.items {
		n.items[i].batch = batchIn(n.cycle, n.items[i])
	}
	n.work = p.workIn(n.items, n.cycle)
	return true
}

// workIn is the sum of l(batch) over the items in a shorter duty cycle.
func (p *planner) workIn(items []item, cycle mono.Dur) mono.Dur {
	sum := mono.Dur(0)
	for _, k := range items {
		sum += p.sessions[k.model].profile.Latency(batchIn(cycle, k))
	}
	return sum
}

// batchIn is how many of an item's requests come in a duty cycle that is not
// longer than its own, rounded up. Its own batch bounds what the division of
// floats may add.
func batchIn(cycle mono.Dur, k item) int {
	return min(k.batch, max(1, int(math.Ceil(float64(float64(cycle)*k.rate)/1e9))))
}
