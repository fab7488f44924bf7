package frontend

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// have is a client of several schedulers, and what the test told it as each of them.
type have struct {
	*Client
	links   []*fakeLink
	serials []uint64
}

func newHave(t testing.TB, n int) *have {
	h := &have{serials: make([]uint64, n)}
	h.Client = alone(t, func(o *Options) {
		o.Scheduler, o.Network = "", loopback.New()
		for i := range n {
			o.Schedulers = append(o.Schedulers, fmt.Sprint("inproc:", i))
		}
	})
	for i := range n {
		h.links = append(h.links, nil)
		h.join(i, 1)
		h.change(i, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", GPUs: 1}}})
	}
	return h
}

func (h *have) join(i int, epoch wire.Epoch) {
	h.links[i], h.serials[i] = &fakeLink{}, 0
	h.uplinks[i].tell(h.links[i], wire.DocAdmitted, catalog.Admitted{Epoch: epoch})
}

func (h *have) lose(i int) { h.uplinks[i].Closed(h.links[i], errors.New("lost")) }

func (h *have) change(i int, ch catalog.Changes) {
	ch.Epoch, ch.Since, ch.Serial = 1, h.serials[i], h.serials[i]+1
	h.serials[i]++
	h.uplinks[i].tell(h.links[i], wire.DocChanges, ch)
}

func (h *have) tell(i int, models ...catalog.Served) { h.change(i, catalog.Changes{Models: models}) }

func (h *have) share(i int, one, two uint32) {
	h.change(i, catalog.Changes{Names: []catalog.Name{{Name: "m", Shares: []catalog.Share{{Version: "1", Weight: one}, {Version: "2", Weight: two}}}}})
}

func specOf(name, version string) catalog.ModelSpec {
	return catalog.ModelSpec{Name: name, Version: version, SLO: mono.Second, Inputs: vector(1), Outputs: vector(1)}
}

// Of several schedulers that have a name one answers: step by step what the comment of
// lookup.go says. Ids are 10 times the scheduler and the version.
func TestWhoAnswers(t *testing.T) {
	h := newHave(t, 3)
	at := func(i, version int) catalog.Served {
		return catalog.Served{ID: wire.ModelID(10*i + version), DeviceType: "e", Spec: specOf("m", fmt.Sprint(version))}
	}
	parked := at(2, 1)
	parked.DeviceType = "none"
	gone := func(i, version int) { h.change(i, catalog.Changes{Gone: []wire.ModelID{wire.ModelID(10*i + version)}}) }
	slower := at(1, 1)
	slower.Spec.SLO *= 2
	older := at(0, 1)
	older.Spec.SLO *= 2
	elsewhere := at(0, 1)
	elsewhere.SubCluster = "s"
	for _, step := range []struct {
		what   string
		do     func()
		no     wire.ModelID   // answers where no version is asked for
		one    wire.ModelID   // answers for version 1
		chosen []wire.ModelID // of the next requests without a version; nil: no
	}{
		{"one has it", func() { h.tell(0, at(0, 1)) }, 1, 1, nil},
		{"it comes to another one", func() { h.tell(1, at(1, 1)) }, 11, 11, nil},
		{"which is told other settings", func() { h.tell(1, slower) }, 11, 11, nil},
		{"and the first, too", func() { h.tell(0, older) }, 11, 11, nil},
		{"it comes to a third, without devices", func() { h.tell(2, parked) }, 11, 11, nil},
		{"and with", func() { h.tell(2, at(2, 1)) }, 21, 21, nil},
		{"that one is lost", func() { h.lose(2) }, 11, 11, nil},
		{"and back, started anew", func() { h.join(2, 1); h.change(2, catalog.Changes{}) }, 11, 11, nil},
		{"a higher version at the first", func() { h.tell(0, at(0, 2)) }, 2, 11, nil},
		{"the first moves version 1 to other devices", func() {
			h.change(0, catalog.Changes{Pools: []catalog.PoolState{{DeviceType: "e", SubCluster: "s", GPUs: 1}}, Models: []catalog.Served{elsewhere}})
		}, 2, 1, nil},
		{"the first has shares", func() { h.share(0, 100, 0) }, 1, 1, nil},
		{"the second, too, and version 2", func() { h.share(1, 1, 1); h.tell(1, at(1, 2)) }, 12, 1, []wire.ModelID{12, 11, 12, 11}},
		{"the second loses version 1", func() { gone(1, 1) }, 1, 1, nil},
		{"the first loses all", func() { gone(0, 1); gone(0, 2) }, 12, 0, nil},
		{"the second is lost: as it was told last", func() { h.lose(1) }, 12, 0, nil},
	} {
		step.do()
		if e, err := h.Model("m", ""); err != nil || e.ID != step.no {
			t.Fatalf("%s: %d answers, want %d; %v", step.what, e.ID, step.no, err)
		}
		if e, err := h.Model("m", "1"); (step.one > 0) != (err == nil) || e.ID != step.one {
			t.Fatalf("%s: %d answers for version 1, want %d; %v", step.what, e.ID, step.one, err)
		}
		if step.chosen == nil {
			step.chosen = []wire.ModelID{step.no}
		}
		seen := map[wire.ModelID]int{}
		for range step.chosen {
			e, _ := h.Choose("m", "")
			seen[e.ID]++
		}
		for _, id := range step.chosen {
			if seen[id]--; seen[id] < 0 {
				t.Fatalf("%s: chosen %v, want %v", step.what, seen, step.chosen)
			}
		}
	}
}

// While a model moves to and fro, who looks for it finds it, and finds it ready: each look falls
// into one move at most.
func TestFoundWhileItMoves(t *testing.T) {
	h := newHave(t, 2)
	m := catalog.Served{ID: 1, DeviceType: "e", Spec: specOf("m", "1")}
	h.tell(0, m)
	var looks [2]atomic.Int64
	var all sync.WaitGroup
	var end atomic.Bool
	for i := range looks {
		r := Request{Model: "m", Version: []string{"", "1"}[i%2]}
		all.Go(func() {
			for !end.Load() {
				if m, err := h.admit(&r); err != nil || m == nil {
					t.Errorf("version %q: %+v, %v", r.Version, m, err)
					end.Store(true)
				}
				if looks[i].Add(1)%16 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	for i, begin := 0, time.Now(); i < 3000 && time.Since(begin) < 2*time.Second && !end.Load(); i++ {
		from, to := i%2, (i+1)%2
		h.tell(to, m)
		h.change(from, catalog.Changes{Gone: []wire.ModelID{1}})
		for k := range looks {
			for n := looks[k].Load() + 2; looks[k].Load() < n && !end.Load(); {
				runtime.Gosched()
			}
		}
	}
	end.Store(true)
	all.Wait()
}

// TestFoundWhereverServed: whatever three schedulers say, whoever is away, and whatever ids they
// have: what one of them serves is found, ready, and listed once; what none has is unknown, or
// unavailable while one has yet to say what it has.
func TestFoundWhereverServed(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const n = 3
		h := newHave(t, n)
		defer h.Close()
		worlds, known, up, had := make([]*told, n), make([]bool, n), make([]bool, n), make([]map[string]bool, n)
		for i := range n {
			worlds[i], known[i], up[i], had[i] = newTold(), true, true, map[string]bool{}
			worlds[i].serial = h.serials[i]
		}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			i := rapid.IntRange(0, n-1).Draw(r, "scheduler")
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0:
				h.lose(i)
				up[i] = false
			case 1:
				for _, e := range worlds[i].entries() {
					had[i][e.Spec.Name] = had[i][e.Spec.Name] || known[i]
				}
				h.join(i, 1)
				known[i], up[i] = false, true
			default:
				if !up[i] {
					continue
				}
				worlds[i].change(r)
				h.uplinks[i].tell(h.links[i], wire.DocChanges, worlds[i].after(1, h.serials[i], worlds[i].serial))
				h.serials[i], known[i] = worlds[i].serial, true
				if err := h.links[i].cause(); err != nil {
					r.Fatal(err)
				}
			}
			checkFound(r, h, worlds, known, up, had)
		}
	})
}

func checkFound(r *rapid.T, h *have, worlds []*told, known, up []bool, had []map[string]bool) {
	serves, there, names := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, w := range worlds {
		if !known[i] {
			continue
		}
		for _, e := range w.entries() {
			for _, key := range []string{e.Spec.Key(), e.Spec.Name + "/"} {
				there[key], serves[key] = true, serves[key] || e.Ready && up[i]
			}
			names[e.Spec.Name] = true
		}
	}
	listed := map[string]bool{}
	for _, e := range h.Models().Entries {
		if key := e.Spec.Key(); listed[key] || !there[key] || e.Ready != serves[key] {
			r.Fatalf("%s is listed, ready %v; there %v, listed before %v, served %v", key, e.Ready, there[key], listed[key], serves[key])
		}
		listed[e.Spec.Key()] = true
	}
	for _, name := range []string{"a", "b", "c"} {
		if got := len(h.Versions(name)) > 0; got != names[name] {
			r.Fatalf("%s has versions %v", name, h.Versions(name))
		}
		for _, version := range []string{"", "1", "9", "10"} {
			key := name + "/" + version
			away := false // one that may have it has not said so
			for i := range worlds {
				here := false
				for _, e := range worlds[i].entries() {
					here = here || known[i] && e.Spec.Name == name
				}
				away = away || !known[i] || had[i][name] && !here
			}
			for what, ask := range map[string]func(name, version string) (catalog.Entry, error){"Model": h.Model, "Choose": h.Choose} {
				e, err := ask(name, version)
				switch {
				case there[key] && (err != nil || e.Ready != serves[key] || e.Spec.Name != name || version != "" && e.Spec.Version != version):
					r.Fatalf("%s %s: %+v, %v; served %v", what, key, e, err, serves[key])
				case !there[key] && away && !errors.Is(err, ErrUnavailable), !there[key] && !away && !errors.Is(err, ErrUnknownModel):
					r.Fatalf("%s %s: %v; a scheduler has yet to say %v", what, key, err, away)
				case there[key] != listed[key] && version != "":
					r.Fatalf("%s: there %v, listed %v", key, there[key], listed[key])
				}
			}
		}
	}
}

// A request that schedulers have given back goes to one that has not, whoever was tried in
// between, and there to the version that the shares ask for.
func TestToEachOnce(t *testing.T) {
	h := newHave(t, 3)
	for i := range 3 {
		for version := 1; version <= 2; version++ {
			h.tell(i, catalog.Served{ID: wire.ModelID(10*i + version), DeviceType: "e", Spec: specOf("m", fmt.Sprint(version))})
		}
		h.share(i, 1, 0)
	}
	k := call{any: true, model: h.uplinks[0].of("m").all[0]}
	asked := uint64(0)
	for range 3 {
		m := h.instead(&k)
		if m == nil || m.uplink.bit&asked != 0 || m.entry.Spec.Version != "1" {
			t.Fatalf("after %b: %+v", asked, m)
		}
		asked |= m.uplink.bit
		k.model, k.refused = m, asked
	}
	if m := h.instead(&k); m != nil {
		t.Errorf("all have given it back, and yet %d", m.entry.ID)
	}
}
