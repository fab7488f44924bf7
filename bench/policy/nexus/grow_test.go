package nexus

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// l(b) = b + 5 ms, SLO 25 ms, 783.3 r/s: a GPU in batches of 7 and 200 r/s that
// are left over. Those are packed in batches of 3 (15 + 8 ms; 4 would take
// 20 + 9), but a GPU of their own runs batches of 7 as well. So both GPUs can
// take the same, and share the requests evenly.
func TestGrowEvensOutTheRest(t *testing.T) {
	p := plannerOf(linear(t, 1, 5, 25, 783.3))
	nodes, ok := p.pack(1, 2)
	if !ok || len(nodes) != 2 || nodes[1].items[0].batch != 3 {
		t.Fatalf("packed as %+v, want the rest in batches of 3", nodes)
	}
	p.grow(&nodes[0])
	p.grow(&nodes[1])
	a, b := nodes[0].items[0], nodes[1].items[0]
	if a.batch != 7 || b.batch != 7 || a.rate != b.rate {
		t.Errorf("grew to batches of %d and %d for %v and %v r/s, want 7 and the same rates", a.batch, b.batch, a.rate, b.rate)
	}
}

// Two sessions on a GPU: l(b) = b + 5 ms, SLO 30 ms, 50 and 100 r/s. Batches
// of 1 and 2 make rounds of 13 ms. Batches of 2 and 4 make rounds of 16 ms and
// 16 + 9 = 25 ms; 3 and 6 make 19 ms and 30 ms. One more of either is late.
// Where the network takes 0.6 ms for each item, 2 and 5 are just in time, 17 +
// 10 + 5*0.6 = 30 ms, and again one more of either is not.
func TestGrowStopsAtTheSLO(t *testing.T) {
	for _, c := range []struct {
		data, work float64
		want       [2]int
	}{{0, 19, [2]int{3, 6}}, {0.6, 17, [2]int{2, 5}}} {
		p := &planner{}
		for _, rate := range []float64{50, 100} {
			m := linear(t, 1, 5, 30, rate)
			p.sessions = append(p.sessions, newSession(m.Profile, m.SLO, batching.Delay{Data: mono.FromMillis(c.data)}, m.Rate))
		}
		nodes, ok := p.pack(1, 1)
		if !ok {
			t.Fatalf("%v ms an item: does not fit one GPU", c.data)
		}
		n := nodes[0]
		p.grow(&n)
		batch := [2]int{}
		for _, k := range n.items {
			batch[k.model] = k.batch
		}
		if batch != c.want || n.work != mono.FromMillis(c.work) {
			t.Errorf("%v ms an item: batches %v in rounds of %v, want %v in %v ms", c.data, batch, n.work, c.want, c.work)
		}
	}
}

// l(b) = 0.1*b + 10 ms, SLO 20.1 ms: 2*l(1) is more. Each GPU is planned for
// 1/l(1) of the rate, and may run what l(b) <= SLO allows, 101.
func TestTightModel(t *testing.T) {
	p := plannerOf(linear(t, 0.1, 10, 20.1, 200))
	nodes := p.fill(3)
	if len(nodes) != 3 {
		t.Fatalf("%d nodes", len(nodes))
	}
	for _, n := range nodes {
		if k := n.items[0]; k.batch != 101 || k.rate != nodes[0].items[0].rate {
			t.Errorf("node %+v, want batches of 101 and even rates", n)
		}
	}
	if one, ok := p.pack(1, 2); ok {
		t.Errorf("200 r/s were planned on %d GPUs of 99 r/s", len(one))
	}
}

// Random sessions: no node carries less for its items than it was planned for.
func TestGrowKeepsUp(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := &planner{}
		for range 1 + r.IntN(20) {
			m := linear(t, 0.1+6*r.Float64(), 20*r.Float64(), 1, 0)
			slo := mono.Dur((2 + 5*r.Float64()) * float64(m.Profile.Latency(1)))
			p.sessions = append(p.sessions, newSession(m.Profile, slo, batching.Delay{}, 500*r.Float64()*r.Float64()))
		}
		nodes := p.scale(1 + r.IntN(20))
		for i := range nodes {
			n := nodes[i]
			n.items = append([]item(nil), n.items...)
			p.grow(&n)
			for j, k := range n.items {
				if was := nodes[i].items[j]; k.rate < 0.999999*was.rate || k.batch < was.batch {
					t.Fatalf("seed %d: batch %d for %v r/s became %d for %v", seed, was.batch, was.rate, k.batch, k.rate)
				}
			}
		}
	}
}
