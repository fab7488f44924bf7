package fleet

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// at puts something on the agenda.
func (d *Day) at(when mono.Time, e event) {
	slot := uint32(len(d.slots))
	if n := len(d.free); n > 0 {
		slot, d.free = d.free[n-1], d.free[:n-1]
		d.slots[slot] = e
	} else {
		d.slots = append(d.slots, e)
	}
	d.agenda.Set(slot, int64(when))
}

// Run goes through the day. stop, if not nil, is asked now and then whether to give up.
func (d *Day) Run(stop func() bool) error {
	for n := 0; d.agenda.Len() > 0; n++ {
		slot, at := d.agenda.Min()
		if mono.Time(at) >= mono.Time(d.cfg.Length) {
			break
		}
		if n%1024 == 0 && stop != nil && stop() {
			return ErrStopped
		}
		d.now = max(d.now, mono.Time(at))
		d.agenda.Remove(slot)
		e := d.slots[slot]
		if slot != wakeSlot {
			d.free = append(d.free, slot)
		}
		if err := d.happens(e); err != nil {
			return fmt.Errorf("at %v: %w", d.now, err)
		}
		d.next()
	}
	d.now = mono.Time(d.cfg.Length)
	d.close()
	return nil
}

// ErrStopped is the error of a day that was told to give up.
var ErrStopped = fmt.Errorf("simulation stopped")

// next begins the steps that the roll-out wants.
func (d *Day) next() {
	running := d.rollout.Phase() == plan.Running
	d.steps = d.rollout.Next(d.now, d.steps[:0])
	for _, s := range d.steps {
		d.issue(s)
	}
	if n := len(d.Epochs); n > 0 && running && d.rollout.Phase() != plan.Running && d.Epochs[n-1].Until == mono.Never {
		d.Epochs[n-1].Until = d.now
	}
	if wake := d.rollout.Wake(); wake != mono.Never {
		d.agenda.Set(wakeSlot, int64(max(wake, d.now+1)))
	} else {
		d.agenda.Remove(wakeSlot)
	}
}

func (d *Day) happens(e event) error {
	switch e.kind {
	case ticks:
		d.at(d.now.Add(tickEvery), e)
		return d.tick()
	case ends:
		d.ends(e)
	case found: // what became of a step that nobody heard of
		if g := &d.gpus[e.gpu]; g.life == e.life && g.state != plan.Out {
			return d.rollout.SetGPU(d.gpuFacts(e.gpu))
		}
	case dies:
		return d.dies()
	case returns:
		g := &d.gpus[e.gpu]
		g.state = plan.Free
		d.signals.GPUs++
		return d.rollout.SetGPU(d.gpuFacts(e.gpu))
	case changes:
		return d.changes()
	case restarts:
		return d.restarts()
	}
	return nil
}

// issue begins a step: how long it takes, and how it will end.
func (d *Day) issue(s plan.Step) {
	d.Totals.Steps++
	if s.Why != "" {
		d.Totals.Why++
	}
	e := event{kind: ends, step: s, gpu: -1}
	if s.GPU != "" {
		e.gpu = d.gpuAt(s.GPU)
		e.life = d.gpus[e.gpu].life
	}
	takes := 2 * mono.Millisecond
	switch s.Kind {
	case plan.Load:
		k := d.news[s.Models[0]]
		d.gpus[e.gpu].loading.put(k)
		takes = 200*mono.Millisecond + mono.FromSeconds(float64(d.models[k].static)/d.cfg.LoadRate*(1+float64(0.3*d.r.Float64())))
		if x := d.r.Float64(); x < d.cfg.LoadFail {
			e.how = fails
		} else if x < d.cfg.LoadFail+d.cfg.LoadLost {
			e.how = unheard
			d.at(d.now.Add(s.Within+mono.Second), event{kind: found, gpu: e.gpu, life: e.life})
		}
	case plan.Unload:
		takes = 50 * mono.Millisecond
	case plan.Drain: // it gets nothing from now on, and ends what it has
		takes = mono.Dur(20+d.r.Int64N(180)) * mono.Millisecond
		if g := &d.gpus[e.gpu]; g.state == plan.Serving {
			d.log(Change{Kind: s.Kind, GPU: e.gpu, From: g.in, To: -1, Model: -1})
			g.state = plan.Draining
		}
	case plan.Measure:
		takes = 5 * mono.Second
	}
	d.at(d.now.Add(takes), e)
}

// gpuAt finds a GPU by its name: "host3/x/1".
func (d *Day) gpuAt(name string) int {
	var host, at int
	if n, err := fmt.Sscanf(name, "host%d/x/%d", &host, &at); n != 2 || err != nil {
		panic("fleet: a step is for a GPU that there is not: " + name)
	}
	return host*d.cfg.PerHost + at
}

// ends carries a step out, and tells the roll-out.
func (d *Day) ends(e event) {
	if e.gpu >= 0 && (d.gpus[e.gpu].life != e.life || d.gpus[e.gpu].state == plan.Out) {
		return // it died with its GPU
	}
	if e.step.Kind == plan.Load {
		d.gpus[e.gpu].loading.drop(d.news[e.step.Models[0]])
	}
	switch e.how {
	case fails:
		d.Totals.Failed++
		d.rollout.Failed(d.now, e.step.ID, "a load that fails by chance")
		return
	case unheard:
		d.Totals.Lost++
		return
	}
	d.carryOut(e)
	d.rollout.Done(d.now, e.step.ID)
}

// carryOut changes the world.
func (d *Day) carryOut(e event) {
	s, to := e.step, -1
	if s.To != "" {
		if _, err := fmt.Sscanf(s.To, "s%d", &to); err != nil {
			panic("fleet: a step is for a sub-cluster that there is not: " + s.To)
		}
	}
	switch s.Kind {
	case plan.Load:
		d.Totals.Loads++
		d.gpus[e.gpu].resident.put(d.news[s.Models[0]])
	case plan.Unload:
		d.Totals.Unloads++
		for _, key := range s.Models {
			d.gpus[e.gpu].resident.drop(d.news[key])
		}
	case plan.Route:
		d.Totals.Routes++
		d.route(d.news[s.Models[0]], to)
	case plan.Drain:
		d.Totals.Drains++
		d.gpus[e.gpu].state, d.gpus[e.gpu].in = plan.Free, -1
	case plan.Seat:
		d.Totals.Seats++
		d.gpus[e.gpu].state, d.gpus[e.gpu].in = plan.Serving, to
		d.log(Change{Kind: plan.Seat, GPU: e.gpu, From: -1, To: to, Model: -1})
	case plan.Measure:
		d.Totals.Measures++
		d.models[d.news[s.Models[0]]].measured = true
	}
}

// route sends a model's requests elsewhere. A version that is routed takes over from the one
// before it.
func (d *Day) route(k, to int) {
	m := d.models[k]
	if d.routed[k] < 0 && to >= 0 && !m.old.serving() {
		d.Totals.Served++
		d.Totals.Unserved += d.now.Sub(m.since)
	}
	d.log(Change{Kind: plan.Route, GPU: -1, Model: k, From: d.routed[k], To: to})
	d.routed[k] = to
	if m.serves = to >= 0; to >= 0 && m.old != nil {
		m.old.serves = false
	}
}

// dies takes a GPU away that serves, if there is one, for a while.
func (d *Day) dies() error {
	for range 64 {
		i := d.r.IntN(len(d.gpus))
		g := &d.gpus[i]
		if g.state != plan.Serving {
			continue
		}
		d.log(Change{Kind: died, GPU: i, From: g.in, To: -1, Model: -1})
		g.life++
		g.state, g.in = plan.Out, -1
		g.resident.clear()
		g.loading.clear()
		d.Totals.GPUsDied++
		d.signals.GPUs++
		d.at(d.now.Add(d.cfg.Away), event{kind: returns, gpu: i})
		d.rollout.RemoveGPU(g.name)
		return nil
	}
	return nil
}

// changes is the catalogue's: a new model, a new version, or a removal, by turns.
func (d *Day) changes() error {
	d.Totals.Catalogue++
	d.signals.Catalogue++
	i := d.r.IntN(len(d.models))
	for n := 0; (d.models[i].gone || d.models[i].heir != nil || !d.models[i].serves) && n < 1000; n++ {
		i = (i + 1) % len(d.models)
	}
	old := d.models[i]
	switch d.Totals.Catalogue % 3 {
	case 0:
		fresh := newModel(&d.cfg, len(d.models), 0, d.r)
		fresh.rate, fresh.since = old.rate, d.now
		d.add(fresh)
	case 1:
		next := *old
		next.version++
		next.old, next.heir, next.serves, next.measured, next.since = old, nil, false, false, d.now
		old.heir = &next
		d.add(&next)
	case 2:
		old.gone = true
	}
	return d.rollout.SetModel(d.modelFacts(len(d.models) - 1))
}

// restarts kills the controller: what it has begun ends in nothing, but for drains, which
// go on, and a new one begins with the plan and the facts.
func (d *Day) restarts() error {
	d.Totals.Restarts++
	for slot := range d.slots {
		if e := &d.slots[slot]; e.kind == ends && d.agenda.Has(uint32(slot)) {
			d.agenda.Remove(uint32(slot))
			d.free = append(d.free, uint32(slot))
			if e.step.Kind == plan.Load {
				d.gpus[e.gpu].loading.drop(d.news[e.step.Models[0]])
			}
		}
	}
	return d.control()
}

// tick looks at the day, and decides whether a plan is to be made.
func (d *Day) tick() error {
	t := Tick{At: d.now, Alive: d.alive()}
	needs, wants := make([]float64, d.cfg.SubClusters), make([]float64, d.cfg.SubClusters)
	serving := make([]int, d.cfg.SubClusters)
	var demands []Demand
	var of []int
	for i, m := range d.models {
		rate := m.popularity(d.now)
		if j := d.routed[i]; j >= 0 && m.serves {
			demands, of = append(demands, m.demand(rate)), append(of, j)
			need := demands[len(demands)-1].Need
			needs[j] += need
			t.Need += need
			t.Rate += rate
		}
	}
	for i := range d.gpus {
		if g := &d.gpus[i]; g.state == plan.Serving {
			serving[g.in]++
			t.Serving++
		}
	}
	wants = d.cfg.Partition.Wants(demands, of, d.cfg.SubClusters)
	d.signals.Needs = d.signals.Needs[:0]
	for j := range needs {
		t.Planned += d.dealt(j)
		t.Wants += math.Ceil(wants[j])
		if float64(serving[j]) < needs[j] {
			t.Short++
		}
		planned := needs[j]
		if d.needs != nil {
			planned = d.needs[j]
		}
		d.signals.Needs = append(d.signals.Needs, plan.NeedOf{SubCluster: subName(j), GPUs: d.dealt(j), Need: needs[j], Planned: planned})
	}
	d.Ticks = append(d.Ticks, t)
	why := d.epochs.Decide(d.now, d.signals)
	var err error
	if why != plan.No {
		err = d.epoch(why)
	}
	for i, m := range d.models {
		d.before[i] = m.popularity(d.now)
	}
	return err
}
