package gaps

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lend picks a model, runs a batch of it for so long, and leaves it a wish of least.
func lend(t *testing.T, g *Gaps, gap, took, least mono.Dur) wire.ModelID {
	t.Helper()
	id, ok := g.Pick(0, gap)
	if !ok {
		t.Fatalf("nobody fits into %v", gap)
	}
	g.Lend(id, 0)
	g.Answer(&Answer{Grant: Grant{Model: id}, Batch: 7, Until: mono.Time(took), Least: least}, true)
	g.Ended(0, 7)
	return id
}

func wish(g *Gaps, id wire.ModelID, least mono.Dur) {
	known := g.Known(id)
	g.Set(Wish{id, least})
	if !known {
		g.Put(id, 0)
	}
}

// GPU time is shared evenly, whoever asks for how much.
func TestTimeIsShared(t *testing.T) {
	g := New()
	wish(g, 1, 3)
	wish(g, 2, 1)
	took := map[wire.ModelID]mono.Dur{}
	for range 100 {
		id, _ := g.Pick(0, 100)
		d := mono.Dur(10)
		if id == 2 {
			d = 2
		}
		lend(t, g, 100, d, mono.Dur(5-2*id))
		took[id] += d
	}
	if diff := took[1] - took[2]; max(diff, -diff) > 10 {
		t.Errorf("models took %v", took)
	}
}

// Who was away has no claim for that time.
func TestNoClaimForTimeAway(t *testing.T) {
	g := New()
	wish(g, 1, 1)
	for range 10 {
		lend(t, g, 10, 10, 1)
	}
	wish(g, 2, 1)
	var order []wire.ModelID
	for range 4 {
		order = append(order, lend(t, g, 10, 10, 1))
	}
	if !slices.Equal(order, []wire.ModelID{2, 1, 2, 1}) {
		t.Errorf("lent to %v, want by turns", order)
	}
}

// A model that fits into no gap is first when one comes into which it does, and holds nobody up until then.
func TestLongOnesWaitForLongGaps(t *testing.T) {
	g := New()
	wish(g, 1, 50)
	wish(g, 2, 5)
	for range 20 {
		if id := lend(t, g, 20, 10, 5); id != 2 {
			t.Fatalf("model %d in a gap of 20", id)
		}
	}
	if _, ok := g.Pick(0, 4); ok {
		t.Error("a model in a gap that is too short for all")
	}
	if id := lend(t, g, 60, 50, 0); id != 1 {
		t.Errorf("model %d in a gap of 60, want the one that waited for it", id)
	}
	if g.Waiting() != 1 {
		t.Errorf("%d wait, want 1", g.Waiting())
	}
}

const models, places = 40, 5

// naive is Gaps by a look at each model.
type naive struct {
	all   [models]naiveModel
	clock mono.Dur
}

type naiveModel struct {
	least, taken mono.Dur
	waits        bool
	at           [places]bool
}

// wish sets a wish in both.
func (n *naive) wish(g *Gaps, id wire.ModelID, least mono.Dur) {
	m, known := &n.all[id], g.Known(id)
	g.Set(Wish{id, least})
	if least == 0 {
		m.waits = false
		return
	}
	if !m.waits {
		m.taken = max(m.taken, n.clock)
	}
	if m.least, m.waits = least, true; !known {
		m.at[id%places] = true
		g.Put(id, uint32(id%places))
	}
}

func (n *naive) pick(place uint32, gap mono.Dur) (best int, ok bool) {
	for i := range n.all {
		k := &n.all[i]
		if !k.waits || !k.at[place] || k.least > gap {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(k.taken, n.all[best].taken), cmp.Compare(k.least, n.all[best].least)) < 0 {
			best, ok = i, true
		}
	}
	return best, ok
}

// lend runs a batch in both, after which the model may wish for more.
func (n *naive) lend(g *Gaps, id wire.ModelID, place uint32, took mono.Dur, more bool) {
	k := &n.all[id]
	n.clock = max(n.clock, k.taken)
	g.Lend(id, place)
	a := Answer{Grant: Grant{Model: id, GPU: wire.GPUID(place)}, Batch: 1, Until: mono.Time(took)}
	k.taken += took
	if k.waits = more; more {
		k.taken, a.Least = max(k.taken, n.clock), k.least
	}
	g.Answer(&a, true)
	g.Ended(wire.GPUID(place), 1)
}

// Against a walk over all models, with places that come and go.
func TestPickAgainstEach(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g, n := New(), &naive{}
	for step := range 30_000 {
		id, place := wire.ModelID(r.IntN(models)), uint32(r.IntN(places))
		switch m := &n.all[id]; r.IntN(6) {
		case 0: // its length may change
			n.wish(g, id, mono.Dur(1+r.IntN(30)))
		case 1:
			n.wish(g, id, 0)
		case 2:
			if !g.Known(id) {
				break
			}
			if m.at[place] = !m.at[place]; m.at[place] {
				g.Put(id, place)
			} else {
				g.Away(id, place)
			}
		case 3:
			if r.IntN(20) == 0 {
				g.Remove(id)
				*m = naiveModel{}
			}
		default:
			gap := mono.Dur(r.IntN(35))
			want, ok := n.pick(place, gap)
			got, is := g.Pick(place, gap)
			if is != ok || ok && int(got) != want {
				t.Fatalf("step %d: gap %v at %d: model %d (%v), want %d (%v)", step, gap, place, got, is, want, ok)
			}
			if ok {
				n.lend(g, got, place, mono.Dur(r.IntN(40)), r.IntN(2) == 0)
			}
		}
		waiting := 0
		for i := range n.all {
			if n.all[i].waits {
				waiting++
			}
		}
		if g.Waiting() != waiting || g.Running() != 0 {
			t.Fatalf("step %d: %d wait and %d GPUs are lent, want %d and 0", step, g.Waiting(), g.Running(), waiting)
		}
	}
}

// The bounds of a batch: the reserve, the least slack of late, nothing.
func TestMost(t *testing.T) {
	const ms = mono.Millisecond
	g := New()
	if most, roomy := g.Most(0, 1, 0); most != Forever || roomy {
		t.Errorf("nobody has deadlines: %v, %v", most, roomy)
	}
	g.Ran(0, 30*ms)
	g.Ran(0, 10*ms)
	g.Ran(0, 20*ms)
	if most, roomy := g.Most(mono.Time(warm)-1, 100, 0); most != 5*ms || roomy {
		t.Errorf("need not known yet: %v, %v", most, roomy)
	}
	now := mono.Time(warm)
	if most, roomy := g.Most(now, 5, 1); most != 5*ms || roomy { // 1 + 3 + 1 GPUs are kept
		t.Errorf("four others: %v, %v", most, roomy)
	}
	if most, roomy := g.Most(now, 6, 1); most != Forever || !roomy {
		t.Errorf("five others: %v, %v", most, roomy)
	}
	wish(g, 0, 1)
	g.Lend(0, 5)
	if _, roomy := g.Most(now, 6, 1); roomy {
		t.Error("roomy with one of six lent")
	}
	g.Answer(&Answer{Grant: Grant{GPU: 5}, Batch: 3, Least: 1}, true)
	g.RemoveGPU(5)
	if _, roomy := g.Most(now, 6, 1); !roomy {
		t.Error("a GPU that is lost is still lent")
	}
	later := mono.Time(Memory)
	g.Ran(later, 40*ms)
	if most, _ := g.Most(later, 1, 1); most != 5*ms {
		t.Errorf("a minute later: %v", most)
	}
	if most, _ := g.Most(later.Add(Memory), 1, 1); most != 20*ms {
		t.Errorf("two minutes later: %v", most)
	}
	if most, _ := g.Most(later.Add(2*Memory), 1, 1); most != Forever {
		t.Errorf("after all: %v", most)
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	g := New()
	for id := range wire.ModelID(100) {
		wish(g, id, mono.Dur(1+id))
	}
	turn := func() {
		for range 50 {
			id, _ := g.Pick(0, 80)
			g.Lend(id, 3)
			g.Answer(&Answer{Grant: Grant{Model: id, GPU: 3}, Batch: 9, Until: 5}, true)
			g.Ended(3, 9)
			g.Set(Wish{id, mono.Dur(1 + id)})
		}
	}
	turn()
	if n := testing.AllocsPerRun(50, turn); n != 0 {
		t.Errorf("%v allocations a turn, want 0", n)
	}
}
