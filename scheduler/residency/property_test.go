package residency

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// stepsOfASequence times rapid's 100 checks are 2e5 random steps; the issue wants 1e5.
const stepsOfASequence = 2000

// Requests, batches, reports, GPUs and models that come and go, in any order: after each call all sums
// hold, no page is used twice, nothing in use is unloaded. See world and audit for the rules.
func TestRandomSteps(t *testing.T) {
	spared := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(Config{Rule: Rule(rapid.IntRange(0, 2).Draw(t, "rule")), Copies: rapid.IntRange(0, 3).Draw(t, "copies"), Packed: rapid.Bool().Draw(t, "packed")})
		d := &driver{world: w, t: t, asked: map[wire.ModelID]mono.Time{}, gpus: rapid.IntRange(1, 4).Draw(t, "GPUs"), names: rapid.IntRange(1, 12).Draw(t, "models")}
		for range d.names {
			d.plan()
		}
		for id := range d.gpus {
			d.addGPU(wire.GPUID(id), d.pick(4, 24), nil, &d.out)
		}
		for i := range stepsOfASequence {
			d.act()
			if w.err != nil {
				t.Fatalf("step %d: %v", i, w.err)
			}
		}
		if c := w.r.Counts(); d.loads != int(c.Loads) {
			t.Fatalf("%d loads, it counts %d", d.loads, c.Loads)
		}
		spared += d.spared
	})
	if spared < 100 {
		t.Errorf("only %d loads for best effort", spared)
	}
}

// driver draws what happens next.
type driver struct {
	*world
	t           *rapid.T
	out         Out
	gpus, names int
	loads       int
	told        []Report
	asked       map[wire.ModelID]mono.Time // with a deadline, last
	spared      int
}

func (d *driver) pick(low, high int) int { return rapid.IntRange(low, high).Draw(d.t, "") }

func (d *driver) model() wire.ModelID { return wire.ModelID(d.pick(0, d.names-1)) }
func (d *driver) gpu() wire.GPUID     { return wire.GPUID(d.pick(0, d.gpus-1)) }

func (d *driver) act() {
	switch n := d.pick(0, 99); {
	case n < 30:
		d.arrive()
	case n < 45:
		d.begin()
	case n < 58:
		d.end()
	case n < 76:
		d.reported()
	case n < 81:
		d.now = max(d.now, min(d.r.NextWake(), d.now.Add(20*ms)))
	case n < 86:
		d.now = d.now.Add(mono.Dur(d.pick(0, int(20*ms))))
	case n < 90:
		d.r.Doomed(d.now, d.model(), d.pick(0, 5))
	case n < 92:
		d.plan()
	case n < 94 && len(d.told) > 0: // once more, or of a life that is over
		if d.r.Loaded(d.now, d.told[d.pick(0, len(d.told)-1)], &d.out) {
			d.fail("a report was taken twice")
		}
	case n < 96:
		d.comeAndGo()
	case n < 98:
		d.misses(d.model(), d.gpu(), &d.out)
	default:
		d.spare()
	}
	d.check(&d.out)
	if d.pick(0, 3) > 0 {
		before := d.r.Counts().Loads
		d.step(&d.out)
		d.loads += int(d.r.Counts().Loads - before)
	}
}

func (d *driver) arrive() {
	// Of these spans most leave time for a load: rapid draws small numbers mostly.
	span := rapid.SampledFrom([]mono.Dur{120 * ms, 90 * ms, 60 * ms, 31 * ms, 17 * ms, 9 * ms, 0, -ms}).Draw(d.t, "span")
	id := d.model()
	d.asked[id] = d.now
	d.r.Arrive(d.now, id, mono.Dur(d.pick(1, 40))*ms, d.now.Add(span+mono.Dur(d.pick(0, int(ms)))))
}

// begin sends a batch to a holder, or holds it for a grant.
func (d *driver) begin() {
	id := d.model()
	all := d.r.Holders(id, nil)
	if len(all) == 0 {
		if gen := d.r.Began(d.now, id, d.gpu(), 1); gen != 0 {
			d.fail("a batch on a GPU that has no weights has generation %d", gen)
		}
		return
	}
	h := all[d.pick(0, len(all)-1)]
	u := use{model: id, gpu: h.GPU, gen: h.Generation, held: d.pick(0, 2) == 0, spare: d.pick(0, 2) == 0}
	gen := Generation(0)
	if u.held {
		gen = d.r.Hold(id, h.GPU)
	} else if u.spare {
		gen = d.r.Borrow(d.now, id, h.GPU)
	} else {
		gen = d.r.Began(d.now, id, h.GPU, d.pick(0, 8))
		d.asked[id] = d.now
	}
	if gen != h.Generation {
		d.fail("a batch of generation %d on %+v", gen, h)
	}
	d.uses = append(d.uses, u)
}

// end ends one; those of lost GPUs among them.
func (d *driver) end() {
	if len(d.uses) == 0 {
		return
	}
	i := d.pick(0, len(d.uses)-1)
	u := d.uses[i]
	d.uses = slices.Delete(d.uses, i, i+1)
	if u.held {
		d.r.Release(d.now, u.model, u.gpu, u.gen)
	} else if u.spare {
		d.r.Return(d.now, u.model, u.gpu, u.gen)
	} else {
		d.r.Ended(d.now, u.model, u.gpu, u.gen)
	}
}

// spare loads for best effort, wherever that is possible. Whom requests with deadlines count on stays, and if they want a load nothing is loaded.
func (d *driver) spare() {
	if d.pick(0, 2) == 0 { // nobody waits any more
		d.now = d.now.Add(mono.Dur(d.pick(0, int(2*keep))))
		for id := range wire.ModelID(d.names) {
			d.r.Doomed(d.now, id, 1<<20)
		}
	}
	wanted := d.r.board.len()
	for id := range wire.ModelID(d.names) {
		gpu := d.gpu()
		seat := d.r.Spare(d.now, id, gpu, d)
		free, _ := d.r.Pages(gpu)
		since := mono.Past
		if int(gpu) < len(d.r.gpus) {
			since = d.r.gpus[gpu].countedSince(d.now)
		}
		ok := d.r.LoadSpare(d.now, id, gpu, d, &d.out)
		if !ok {
			continue
		}
		d.spared++
		d.loads++
		if wanted > 0 || seat == NoSeat || (seat == SeatFree) != (free >= d.models[id]) || len(d.devices[gpu].loads) > 0 || !d.out.Loads[len(d.out.Loads)-1].Spare {
			d.fail("a load of model %d for best effort on GPU %d, seat %d, where %d pages are free, %d models want one", id, gpu, seat, free, wanted)
		}
		for _, u := range d.out.Unloads {
			if at, ok := d.asked[u.Model]; ok && d.models[u.Model] != 0 && at > since {
				d.fail("%+v for best effort, asked for with a deadline %v ago", u, d.now.Sub(at))
			}
		}
		d.check(&d.out)
	}
}

// Yields implements Peers: whoever has an even id.
func (d *driver) Yields(id wire.ModelID) bool { return id%2 == 0 }

// reported ends a load: mostly in order, about when it was planned, and well.
func (d *driver) reported() {
	id := d.gpu()
	dev := d.devices[id]
	if dev == nil || len(dev.loads) == 0 {
		return
	}
	i := 0
	if d.pick(0, 9) == 0 {
		i = len(dev.loads) - 1
	}
	rep := d.report(id, i, mono.Dur(d.pick(-int(ms), int(3*ms))), d.pick(0, 9) < 8, &d.out)
	d.told = append(d.told, rep)
}

// plan removes a model, or adds one.
func (d *driver) plan() {
	id := d.model()
	if d.models[id] != 0 {
		delete(d.models, id)
		delete(d.asked, id)
		delete(d.floors, id)
		d.r.RemoveModel(d.now, id, &d.out)
		return
	}
	delete(d.asked, id)
	d.models[id] = d.pick(1, 9)
	d.pinned[id] = d.pick(0, 5) == 5
	d.r.AddModel(id, Model{Pages: d.models[id], LoadTime: mono.Dur(d.pick(int(ms/10), int(20*ms))), Pinned: d.pinned[id]})
}

// comeAndGo: a GPU is lost, or comes, with what it says that it holds.
func (d *driver) comeAndGo() {
	id := d.gpu()
	if d.devices[id] != nil && d.pick(0, 1) == 0 {
		for _, l := range d.devices[id].loads {
			d.told = append(d.told, Report{ID: l.ID, Start: d.now, End: d.now, OK: true})
		}
		d.removeGPU(id, &d.out)
		return
	}
	if d.devices[id] != nil {
		return
	}
	var held []wire.ModelID
	for range d.pick(0, 6) {
		held = append(held, wire.ModelID(d.pick(0, d.names))) // one that nobody knows, and some twice
	}
	d.addGPU(id, d.pick(4, 24), held, &d.out)
}
