package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
)

// history is a world to which things happen.
type history struct {
	*earth
	r      *rapid.T
	faulty bool // something failed, or was lost
	tight  bool // memory has a limit
	serial int
}

// TestHistories: whatever the catalogue, the planner, GPUs, backends, links and controllers do,
// a model is served only by GPUs that have it, no sub-cluster falls below its need by a step
// that does not say so, no GPU's memory overflows, limits are kept, and once it is quiet the
// roll-out ends: as planned, where nothing stands in its way.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := newHistory(r)
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			h.event()
			h.check()
		}
		h.end()
	})
}

func newHistory(r *rapid.T) *history {
	h := &history{earth: &earth{fatal: r.Fatalf, tell: r.Logf}, r: r, tight: rapid.Bool().Draw(r, "tight")}
	h.limits = Limits{Loads: rapid.IntRange(1, 5).Draw(r, "loads"), LoadsHost: rapid.IntRange(1, 3).Draw(r, "of a host"), LoadsGPU: rapid.IntRange(1, 2).Draw(r, "of a GPU"),
		Drained: rapid.IntRange(1, 2).Draw(r, "drained"), Warming: rapid.IntRange(1, 3).Draw(r, "warming"), Others: rapid.IntRange(1, 3).Draw(r, "others"), Tries: 2}
	for i := range rapid.IntRange(1, 7).Draw(r, "GPUs") {
		h.devices = append(h.devices, h.newDevice(i))
	}
	for i := range rapid.IntRange(1, 7).Draw(r, "models") {
		h.things = append(h.things, h.newThing(fmt.Sprintf("m%d/1", i)))
	}
	h.plan = h.anyPlan()
	h.begin()
	h.next()
	return h
}

func (h *history) newDevice(i int) *device {
	d := &device{name: fmt.Sprintf("h%d/x/%d", i/2, i), host: fmt.Sprint("h", i/2), deviceType: "x", resident: map[string]bool{}, loading: map[string]bool{}}
	if rapid.IntRange(0, 4).Draw(h.r, "type") == 0 {
		d.deviceType = "y"
	}
	if h.tight {
		d.memory = rapid.SampledFrom([]int64{60, 100}).Draw(h.r, "memory")
	}
	return d
}

func (h *history) newThing(key string) *thing {
	t := &thing{key: key, static: rapid.Int64Range(0, 30).Draw(h.r, "static"), dynamic: rapid.Int64Range(0, 20).Draw(h.r, "dynamic"),
		needs: map[string]float64{}, measured: map[string]bool{}, failed: map[string]int{}}
	for _, deviceType := range []string{"x", "y"} {
		t.needs[deviceType] = rapid.SampledFrom([]float64{0, 0.3, 0.5, 1, 1.4}).Draw(h.r, "need")
		if rapid.IntRange(0, 3).Draw(h.r, "measured") > 0 {
			t.measured[deviceType] = true
		}
	}
	return t
}

// anyPlan is any, but for two rules: a version's successor is of its name, and GPUs are mostly
// there.
func (h *history) anyPlan() (p Plan) {
	h.serial++
	p.Epoch = uint64(h.serial)
	left := map[string]int{}
	for _, d := range h.devices {
		if d.state != Out {
			left[d.deviceType]++
		}
	}
	for i := range rapid.IntRange(1, 4).Draw(h.r, "sub-clusters") {
		s := SubCluster{Name: fmt.Sprint("s", (i+rapid.IntRange(0, 1).Draw(h.r, "names"))%4), DeviceType: "x"}
		if i == 3 {
			s.Name, s.DeviceType = "t", "y"
		}
		if p.Find(s.Name) != nil {
			continue
		}
		s.GPUs = rapid.IntRange(0, max(0, left[s.DeviceType])).Draw(h.r, "of them")
		left[s.DeviceType] -= s.GPUs
		if rapid.IntRange(0, 9).Draw(h.r, "too many") == 0 {
			s.GPUs++
		}
		p.SubClusters = append(p.SubClusters, s)
	}
	for _, t := range h.things {
		at := rapid.IntRange(-1, len(p.SubClusters)-1).Draw(h.r, "where")
		if at >= 0 {
			p.SubClusters[at].Models = append(p.SubClusters[at].Models, t.key)
			if rapid.IntRange(0, 3).Draw(h.r, "settings") == 0 {
				p.Settings = append(p.Settings, ModelSettings{t.key, Settings{SLO: mono.Dur(h.serial), Share: 1}})
			}
		}
	}
	for _, s := range p.SubClusters {
		for _, key := range s.Models {
			for _, t := range h.things {
				if old := t.key; old != key && old[:2] == key[:2] && !slices.ContainsFunc(p.SubClusters, func(s SubCluster) bool { return slices.Contains(s.Models, old) }) {
					p.Successions = append(p.Successions, Succession{Old: old, New: key})
				}
			}
		}
	}
	return p
}

func (h *history) event() {
	switch rapid.IntRange(0, 17).Draw(h.r, "event") {
	default: // most of all, steps end
		h.stepEnds()
	case 0:
		h.plan = h.anyPlan()
		if err := h.rollout.Overtake(h.plan); err != nil {
			h.r.Fatal(err)
		}
	case 1:
		h.killController()
	case 2:
		h.gpuGoes()
	case 3:
		h.gpuComes()
	case 4:
		h.needMoves()
	case 5:
		h.catalogueChanges()
	case 6:
		h.timePasses()
	case 7:
		h.refresh()
	case 8:
		h.idles()
	}
	h.next()
}

func (h *history) pick() *errand {
	if len(h.orders) == 0 {
		return nil
	}
	return h.orders[rapid.IntRange(0, len(h.orders)-1).Draw(h.r, "step")]
}

// stepEnds: it is done, fails, is done and nobody hears of it, or is lost.
func (h *history) stepEnds() {
	o := h.pick()
	if o == nil {
		return
	}
	if o.Kind == Drain && !o.begun {
		o.begun = true
		if d := h.device(o.GPU); d.state == Serving {
			d.state = Draining
			h.learn(d)
		}
		return
	}
	switch rapid.IntRange(0, 9).Draw(h.r, "how") {
	default:
		h.finish(o, "")
	case 0:
		h.faulty = true
		h.finish(o, "by chance")
	case 1: // the report is lost; the facts say it
		h.faulty = true
		h.orders = slices.DeleteFunc(h.orders, func(p *errand) bool { return p == o })
		h.carryOut(o, "")
		h.told(o)
	case 2: // nobody begins it
		h.faulty = true
		h.orders = slices.DeleteFunc(h.orders, func(p *errand) bool { return p == o })
		if o.Kind == Load {
			delete(h.device(o.GPU).loading, o.Models[0])
		}
	}
}

// told hands in the facts of what a step is about.
func (h *history) told(o *errand) {
	if o.GPU != "" {
		h.learn(h.device(o.GPU))
	}
	if o.Kind != Unload {
		for _, key := range o.Models {
			h.sync(h.thing(key))
		}
	}
}

// killController: steps under way are carried out, or not; a load goes on. A new controller
// has the plan and the facts, and nothing else.
func (h *history) killController() {
	for _, o := range h.orders {
		switch rapid.IntRange(0, 2).Draw(h.r, "while nobody controls") {
		case 0:
			h.carryOut(o, "")
		case 1:
			if o.Kind == Load {
				delete(h.device(o.GPU).loading, o.Models[0])
			}
		case 2: // the load goes on
		}
	}
	h.orders = nil
	h.begin()
}

// gpuGoes: its steps end nowhere.
func (h *history) gpuGoes() {
	d := h.devices[rapid.IntRange(0, len(h.devices)-1).Draw(h.r, "goes")]
	h.orders = slices.DeleteFunc(h.orders, func(o *errand) bool { return o.GPU == d.name })
	d.state, d.in, d.idle, d.resident, d.loading = Out, "", false, map[string]bool{}, map[string]bool{}
	for _, t := range h.things {
		delete(t.failed, d.name)
	}
	if rapid.Bool().Draw(h.r, "said") {
		h.learn(d)
	} else {
		h.rollout.RemoveGPU(d.name)
	}
}

// gpuComes: a new one, or one that was away, with what it had loaded by itself.
func (h *history) gpuComes() {
	i := slices.IndexFunc(h.devices, func(d *device) bool { return d.state == Out })
	if i < 0 {
		if len(h.devices) > 9 {
			return
		}
		h.devices = append(h.devices, h.newDevice(len(h.devices)))
		i = len(h.devices) - 1
	}
	d := h.devices[i]
	d.state = Free
	if d.memory == 0 && len(h.things) > 0 && rapid.Bool().Draw(h.r, "with a model") {
		d.resident[h.things[0].key] = true
	}
	h.learn(d)
}

func (h *history) needMoves() {
	t := h.things[rapid.IntRange(0, len(h.things)-1).Draw(h.r, "whose need")]
	t.needs["x"] = rapid.SampledFrom([]float64{0, 0.2, 0.7, 1, 2}).Draw(h.r, "its need")
	h.sync(t)
}

// catalogueChanges: a version more, or a model; the next plan will have it. Its file may be
// broken.
func (h *history) catalogueChanges() {
	if len(h.things) >= 10 {
		return
	}
	t := h.newThing(fmt.Sprintf("m%d/%d", rapid.IntRange(0, 3).Draw(h.r, "of"), h.serial+len(h.things)+1))
	if slices.ContainsFunc(h.things, func(o *thing) bool { return o.key == t.key }) {
		return
	}
	switch rapid.IntRange(0, 5).Draw(h.r, "health") {
	case 0:
		t.broken, h.faulty = "its file is broken", true
	case 1:
		t.badOn, h.faulty = h.devices[0].name, true
	case 2:
		t.unmeasurable, h.faulty = true, true
	}
	h.things = append(h.things, t)
	h.sync(t)
	h.plan = h.anyPlan()
	if err := h.rollout.Overtake(h.plan); err != nil {
		h.r.Fatal(err)
	}
}

// timePasses: to the next thing that the roll-out waits for, or beyond. What was not begun in
// time is not begun any more; a load goes on.
func (h *history) timePasses() {
	if at := h.rollout.Wake(); at != mono.Never {
		h.now = max(h.now, at.Add(rapid.SampledFrom([]mono.Dur{0, mono.Second, 400 * mono.Second}).Draw(h.r, "later")))
	}
	h.orders = slices.DeleteFunc(h.orders, func(o *errand) bool {
		late := o.due <= h.now
		h.faulty = h.faulty || late
		return late
	})
}

// refresh hands in all facts again. Loads that nobody waits for end meanwhile.
func (h *history) refresh() {
	for _, d := range h.devices {
		for _, key := range sortedKeys(d.loading) {
			if !slices.ContainsFunc(h.orders, func(o *errand) bool { return o.Kind == Load && o.GPU == d.name && o.Models[0] == key }) {
				delete(d.loading, key)
				d.resident[key] = rapid.Bool().Draw(h.r, "loaded after all")
				if !d.resident[key] {
					delete(d.resident, key)
				}
			}
		}
		h.learn(d)
	}
	for _, t := range h.things {
		h.sync(t)
	}
}

func (h *history) idles() {
	d := h.devices[rapid.IntRange(0, len(h.devices)-1).Draw(h.r, "idles")]
	measures := slices.ContainsFunc(h.orders, func(o *errand) bool { return o.Kind == Measure && o.GPU == d.name })
	if d.state == Serving && !measures {
		d.idle = !d.idle
		h.learn(d)
	}
}

// end: from here on nothing fails that did not before. All that was lost is found.
func (h *history) end() {
	h.timePasses()
	h.next()
	h.refresh()
	h.quiet(func(n int) int { return rapid.IntRange(0, n-1).Draw(h.r, "ends") }, h.refresh)
	wrong := h.asPlanned()
	switch phase := h.rollout.Phase(); {
	case phase == Done && wrong != "":
		h.r.Fatalf("it says that it is done, and %s", wrong)
	case phase == Marked && wrong == "":
		h.r.Fatalf("it says %v, and all is as planned", h.rollout.Problems())
	case phase == Marked && !h.faulty && !h.tight && h.possible():
		h.r.Fatalf("nothing stands in its way, and %v", h.rollout.Problems())
	}
	if steps := h.rollout.Next(h.now.Add(3600*mono.Second), nil); len(steps) > 0 {
		h.r.Fatalf("it had ended, and goes on with %v", steps)
	}
	h.begins(wrong)
}

// begins: a controller that begins on what is as planned has nothing to do.
func (h *history) begins(wrong string) {
	h.begin()
	if h.next(); wrong == "" && len(h.orders) > 0 {
		h.r.Fatalf("all is as planned, and a new controller begins with %v", h.orders[0].Step)
	}
}

// possible: the GPUs of the plan are there, each sub-cluster with models has one, and keeps
// its need.
func (h *history) possible() bool {
	there := map[string]int{}
	for _, d := range h.devices {
		if d.state != Out {
			there[d.deviceType]++
		}
	}
	for _, s := range h.plan.SubClusters {
		if there[s.DeviceType] -= s.GPUs; there[s.DeviceType] < 0 || s.GPUs == 0 && len(s.Models) > 0 {
			return false
		}
		if s.GPUs < h.rollout.requiredAtEnd(h.rollout.named[s.Name]) {
			return false
		}
	}
	return true
}
