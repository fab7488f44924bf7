package nexus

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

func plannerOf(models ...policy.Model) *planner {
	p := &planner{}
	for _, m := range models {
		p.sessions = append(p.sessions, newSession(m.Profile, m.SLO, batching.Delay{}, m.Rate))
	}
	return p
}

// l(b) = b + 5 ms, SLO 25 ms: B = 7, and a GPU carries 7/12 ms = 583.3 r/s. Of
// 1,000 r/s one GPU takes that; for the other 416.7 the largest batch with
// b/r + l(b) <= 25 ms is 5 (12 + 10 ms; 6 would take 14.4 + 11).
func TestSaturateThenResidue(t *testing.T) {
	p := plannerOf(linear(t, 1, 5, 25, 1000))
	nodes, ok := p.pack(1, 8)
	if !ok || len(nodes) != 2 {
		t.Fatalf("%d nodes", len(nodes))
	}
	whole, rest := nodes[0], nodes[1]
	if !whole.whole || whole.items[0].batch != 7 || math.Abs(whole.items[0].rate-583.33) > 0.01 {
		t.Errorf("whole GPU: %+v", whole)
	}
	if rest.items[0].batch != 5 || rest.cycle/mono.Microsecond != 12000 || math.Abs(rest.items[0].rate-416.67) > 0.01 {
		t.Errorf("residue: %+v", rest)
	}
}

// Two residues with cycles of 40 and 30 ms merge into 30 ms, and the batch of
// the slower one shrinks from 4 to 3.
func TestMergeShrinksBatches(t *testing.T) {
	p := plannerOf(linear(t, 1, 2, 46, 100), linear(t, 1, 3, 39, 200))
	nodes, ok := p.pack(1, 8)
	if !ok || len(nodes) != 1 {
		t.Fatalf("%d nodes, want one", len(nodes))
	}
	n := nodes[0]
	if n.cycle != 30*mono.Millisecond || n.work != 14*mono.Millisecond {
		t.Errorf("duty cycle %v with %v of work, want 30ms with 14ms", n.cycle, n.work)
	}
	got := []int{}
	for _, k := range n.items {
		got = append(got, int(k.model), k.batch)
	}
	if !slices.Equal(got, []int{1, 6, 0, 3}) {
		t.Errorf("models and batches %v, want 1: 6, 0: 3", got)
	}
}

// Nodes that would fill more than a duty cycle stay apart.
func TestNoMergeBeyondTheCycle(t *testing.T) {
	p := plannerOf(linear(t, 1, 5, 25, 400), linear(t, 1, 5, 25, 400))
	if nodes, ok := p.pack(1, 8); !ok || len(nodes) != 2 {
		t.Errorf("%d nodes, want 2: each fills most of its cycle", len(nodes))
	}
	if _, ok := p.pack(1, 1); ok {
		t.Error("two nodes fitted one GPU")
	}
}

// A model's rate on a plan sums to its share of the scaled rates: 3 to 1 stays
// 3 to 1 whether GPUs are spare or short. What the GPUs can take after they
// grew is no less for either model.
func TestFillKeepsProportions(t *testing.T) {
	for _, gpus := range []int{2, 3, 5, 8, 64} {
		p := plannerOf(linear(t, 1, 5, 25, 1500), linear(t, 1, 5, 25, 500))
		rates := ratesOf(p.scale(gpus), 2)
		if ratio := rates[0] / rates[1]; math.Abs(ratio-3) > 0.01 {
			t.Errorf("%d GPUs: rates %v, ratio %.3f, want 3", gpus, rates, ratio)
		}
		if gpus >= 8 && rates[0]+rates[1] < 0.9*583*float64(gpus) {
			t.Errorf("%d GPUs: plan carries %v, most of %v expected", gpus, rates, 583*gpus)
		}
		for m, can := range ratesOf(p.fill(gpus), 2) {
			if can < 0.999999*rates[m] {
				t.Errorf("%d GPUs: model %d: %v r/s planned, the GPUs can take %v", gpus, m, rates[m], can)
			}
		}
	}
}

func ratesOf(nodes []node, models int) []float64 {
	rates := make([]float64, models)
	for _, n := range nodes {
		for _, k := range n.items {
			rates[k.model] += k.rate
		}
	}
	return rates
}

// Ten models on one GPU: no plan fits even at the lowest rates. Each still has
// its place, in batches of B.
func TestOverfull(t *testing.T) {
	models := make([]policy.Model, 10)
	for i := range models {
		models[i] = linear(t, 1, 5, 25, 100)
	}
	for _, gpus := range []int{1, 2} {
		p := plannerOf(models...)
		nodes := p.fill(gpus)
		count := 0
		for _, n := range nodes {
			count += len(n.items)
			for _, k := range n.items {
				if k.batch != 7 {
					t.Errorf("%d GPUs: model %d in batches of %d, want 7", gpus, k.model, k.batch)
				}
			}
		}
		if len(nodes) != gpus || count != 10 {
			t.Errorf("%d GPUs: %d nodes with %d items, want 10", gpus, len(nodes), count)
		}
	}
}

// Random sessions and clusters: the plan has a node for each GPU, each model
// has a place, and unless it is overfull each node keeps every SLO and does
// its work within its duty cycle, where that is at all possible.
func TestRandomPlans(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		p := &planner{}
		for range 1 + r.IntN(30) {
			m := linear(t, 0.1+6*r.Float64(), 20*r.Float64(), 1, 0)
			slo := mono.Dur((1 + 5*r.Float64()) * float64(m.Profile.Latency(1)))
			p.sessions = append(p.sessions, newSession(m.Profile, slo, batching.Delay{}, 2000*r.Float64()*r.Float64()))
		}
		gpus := 1 + r.IntN(40)
		overfull := p.scale(gpus) == nil
		checkPlan(t, seed, p, p.fill(gpus), gpus, overfull)
	}
}

func checkPlan(t *testing.T, seed uint64, p *planner, nodes []node, gpus int, overfull bool) {
	t.Helper()
	if len(nodes) != gpus {
		t.Fatalf("seed %d: %d nodes for %d GPUs", seed, len(nodes), gpus)
	}
	placed := make([]bool, len(p.sessions))
	for _, n := range nodes {
		work := mono.Dur(0)
		for _, k := range n.items {
			s := &p.sessions[k.model]
			placed[k.model] = true
			l := s.profile.Latency(k.batch)
			work += l
			if late := n.cycle + l - s.slo; late > 0 && !overfull && 2*s.profile.Latency(1) <= s.slo {
				t.Errorf("seed %d: model %d is late by %v", seed, k.model, late)
			}
		}
		if work != n.work || work > n.cycle && !overfull {
			t.Errorf("seed %d: %v of work, reckoned as %v, in a cycle of %v", seed, work, n.work, n.cycle)
		}
	}
	if i := slices.Index(placed, false); i >= 0 {
		t.Errorf("seed %d: model %d has no place", seed, i)
	}
}

// Routes are picked in proportion to their rates over any stretch: a share of
// 4, 2 and 1 in 7 requests, to within one.
func TestFrontendSharesByRate(t *testing.T) {
	models := []model{{routes: []route{{rate: 400}, {rate: 200}, {rate: 100}}}}
	setSteps(models[0].routes)
	for seed := range uint64(20) {
		var f frontend
		f.reset(models, rand.New(rand.NewPCG(seed, 0)))
		counts := [3]int{}
		for n := 1; n <= 700; n++ {
			counts[f.pick(wire.ModelID(0), models[0].routes)]++
			for i, share := range []float64{4. / 7, 2. / 7, 1. / 7} {
				if d := float64(counts[i]) - share*float64(n); math.Abs(d) > 2 {
					t.Fatalf("seed %d: %v after %d picks", seed, counts, n)
				}
			}
		}
	}
}

// Frontends that see the same routes of equal rates take them in other orders.
func TestFrontendsDoNotCoordinate(t *testing.T) {
	models := []model{{routes: make([]route, 8)}}
	for i := range models[0].routes {
		models[0].routes[i].rate = 100
	}
	setSteps(models[0].routes)
	r := rand.New(rand.NewPCG(1, 0))
	var orders [2][]int
	for i := range orders {
		var f frontend
		f.reset(models, r)
		for range 8 {
			orders[i] = append(orders[i], f.pick(0, models[0].routes))
		}
		sorted := slices.Sorted(slices.Values(orders[i]))
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("frontend %d takes %v: not each once", i, orders[i])
		}
	}
	if slices.Equal(orders[0], orders[1]) {
		t.Errorf("both frontends take %v", orders[0])
	}
}
