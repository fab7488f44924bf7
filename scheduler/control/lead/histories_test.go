package lead

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Whatever happens to wishes, GPUs, the scheduler's link and the controller: once it is quiet
// exactly what is wanted is served, answers as its shares say, and is told as served. What
// no scheduler may be told fails on the way (cluster.carryOut).
func TestHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cfg := Config{SubClusters: rapid.IntRange(0, 2).Draw(r, "sub-clusters"), MovesMax: 0.5, RetryMin: mono.Second, RetryMax: 2 * mono.Second}
		c := newCluster(t, cfg, "a/t/0", "a/t/1", "b/t/0", "c/t/0", "d/u/0", "d/u/1")
		c.fatal = r
		for _, name := range names(c.gpus) {
			c.gpus[name].Measures = name != "c/t/0" || rapid.Bool().Draw(r, "measures")
		}
		c.late = rapid.Bool().Draw(r, "facts come late")
		c.strict = !c.late // a new plan goes by what GPUs were before their outcomes came, and may have another one measure
		h := history{cluster: c, wishes: map[string]schema.Model{}, cfg: cfg}
		c.connect()
		for range rapid.IntRange(1, 25).Draw(r, "events") {
			h.event(r)
			c.run(mono.Dur(rapid.IntRange(0, 1000).Draw(r, "ms")) * mono.Millisecond)
		}
		h.mend()
		c.run(1200 * mono.Second)
		h.check(r)
		loads, epoch := h.loads, h.lead.plan.Epoch
		c.run(3600 * mono.Second)
		if h.loads > loads || h.lead.plan.Epoch > epoch {
			r.Fatalf("all is served, and yet %d loads were ordered and plan %d became plan %d\n%v", h.loads-loads, epoch, h.lead.plan.Epoch, h.story)
		}
	})
}

type history struct {
	*cluster
	wishes map[string]schema.Model
	cfg    Config
	serial int64 // of renewals
}

func (h *history) event(r *rapid.T) {
	name := rapid.SampledFrom([]string{"k", "l", "m"}).Draw(r, "name")
	switch rapid.IntRange(0, 10).Draw(r, "what") {
	case 10:
		need := rapid.SampledFrom([]float64{0, 0.1, 0.5, 2}).Draw(r, "need")
		h.needs(func(string) float64 { return need })
	case 0, 1, 2:
		m := wants(name, rapid.IntRange(1, 3).Draw(r, "versions"))
		m.Policy.Kind = rapid.SampledFrom([]schema.PolicyKind{schema.PolicyLatest, schema.PolicyAll}).Draw(r, "policy")
		if rapid.Bool().Draw(r, "shares") {
			m.Shares = []schema.Share{{Version: "1", Weight: rapid.IntRange(1, 9).Draw(r, "weight")}}
		}
		h.wishes[name] = m
		h.lead.SetModel(h.now, m)
	case 3:
		delete(h.wishes, name)
		h.lead.RemoveModel(h.now, name)
	case 4:
		key := fmt.Sprintf("%s/%d", name, rapid.IntRange(1, 3).Draw(r, "version"))
		h.broken[key] = "broken"
		switch rapid.IntRange(0, 3).Draw(r, "how") {
		case 0:
			delete(h.broken, key)
		case 1: // for ever: a type cannot run it
			delete(h.broken, key)
			if h.ready(key) {
				break
			}
			delete(h.broken, key+" t")
			delete(h.broken, key+" u")
			h.broken[key+" "+rapid.SampledFrom([]string{"t", "u"}).Draw(r, "type")] = "not of this type"
		}
	case 5:
		h.lead.Lost()
		h.run(mono.Second)
		h.connect()
	case 6:
		h.turn(rapid.SampledFrom(names(h.gpus)).Draw(r, "gpu"))
	case 7:
		h.restart()
	case 8:
		h.byHand(r)
	case 9:
		h.renew(r, name)
	}
}

// renew is that the files of a version are other ones now, everywhere or on one host, and that people
// say so, or do not.
func (h *history) renew(r *rapid.T, name string) {
	key := name + "/1"
	files := catalog.DigestOf([]byte{byte(len(h.story))})
	if rapid.Bool().Draw(r, "one host") {
		h.lies[rapid.SampledFrom(names(h.gpus)).Draw(r, "gpu")+" "+key] = files
	} else {
		h.lies[key] = files
	}
	m, there := h.wishes[name]
	if !there || rapid.Bool().Draw(r, "silently") {
		return
	}
	m.Versions = slices.Clone(m.Versions)
	h.serial++
	m.Versions[0].Renewed = h.serial
	h.wishes[name] = m
	h.lead.SetModel(h.now, m)
}

// ready reports whether any GPU has a model, or it is routed to GPUs that come back.
func (h *history) ready(key string) bool {
	if _, routed := h.routes[key]; routed {
		return true
	}
	return slices.ContainsFunc(names(h.stock), func(gpu string) bool { return h.stock[gpu][key] == catalog.StateReady })
}

// turn takes a GPU out of service, or back, with nothing on it.
func (h *history) turn(name string) {
	g := h.gpus[name]
	if g.State == catalog.GPUOut {
		g.State, g.In = catalog.GPUFree, catalog.Nowhere
	} else {
		g.State = catalog.GPUOut
		for key := range h.stock[name] {
			h.stock[name][key] = catalog.StateGone
		}
	}
	h.lead.Facts(h.now, h.facts([]string{name}, []string{}))
}

// restart is another controller that takes over.
func (h *history) restart() {
	head, parts := h.lead.head, []schema.SubCluster(nil)
	for _, s := range h.lead.plan.SubClusters {
		parts = append(parts, schema.SubCluster{Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need})
	}
	epoch := h.lead.plan.Epoch
	h.lead = New(h.cfg)
	if epoch > 0 {
		h.lead.Restore(head, parts)
	}
	for _, name := range names(h.wishes) {
		h.lead.SetModel(h.now, h.wishes[name])
	}
	for _, key := range names(h.observed) {
		h.lead.Told(h.observed[key])
	}
	h.connect()
}

func (h *history) byHand(r *rapid.T) {
	p := plan.Plan{SubClusters: []plan.SubCluster{{Name: "x", DeviceType: "t", GPUs: 2}, {Name: "y", DeviceType: "t", GPUs: 2}}}
	for i, key := range names(h.routes) {
		s := &p.SubClusters[i%2]
		if h.lead.wanted(key) {
			s.Models = append(s.Models, key)
		}
	}
	var out Effects
	if !h.lead.world.whole {
		return
	}
	if err := h.lead.Apply(h.now, p, &out); err != nil {
		r.Fatal(err)
	}
	h.take(&out)
}

// mend ends all that is wrong.
func (h *history) mend() {
	clear(h.lies)
	for _, name := range names(h.wishes) { // which people say: what was learnt of others would be waited for
		m := h.wishes[name]
		m.Versions = slices.Clone(m.Versions)
		h.serial++
		m.Versions[0].Renewed = h.serial
		h.wishes[name] = m
		h.lead.SetModel(h.now, m)
	}
	for _, key := range names(h.broken) {
		if !strings.Contains(key, " ") {
			delete(h.broken, key)
		} else if h.lead.byHand { // people's plan may have it where it cannot run
			h.lead.Pause(h.now, true)
			h.lead.Pause(h.now, false)
		}
	}
	for _, name := range names(h.gpus) {
		if h.gpus[name].State == catalog.GPUOut {
			h.turn(name)
		}
	}
}

func (h *history) check(r *rapid.T) {
	var want []string
	for _, name := range names(h.wishes) {
		k := know(h.wishes[name])
		for i := range k.versions {
			if k.versions[i].wanted {
				want = append(want, k.versions[i].key)
			}
		}
		shares := k.name(func(string) bool { return true }).Shares
		if got := h.names[name].Shares; !slices.Equal(got, shares) {
			r.Fatalf("model %s is answered by %v, wanted %v\n%v", name, got, shares, h.story)
		}
	}
	slices.Sort(want)
	if got := h.serving(); !slices.Equal(got, want) {
		r.Fatalf("served %v, wanted %v\nplan %+v\n%v", got, want, h.lead.plan, h.story)
	}
	for _, key := range want {
		if o := h.observed[key]; o.State != schema.Serving {
			r.Fatalf("%s is told as %+v", key, o)
		}
	}
	for _, gpu := range names(h.stock) {
		for _, key := range names(h.stock[gpu]) {
			if h.stock[gpu][key] == catalog.StateReady && !slices.Contains(want, key) {
				r.Fatalf("%s still has %s\n%v", gpu, key, h.story)
			}
		}
	}
}
