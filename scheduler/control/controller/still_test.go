package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// still is a reign over two schedulers that goes on only as the test has it.
type still struct {
	*testing.T
	c    *Controller
	l    *leading
	gpus int // of each scheduler
}

func newStill(t *testing.T, cfg lead.Config) *still {
	s, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &Controller{ctx: t.Context(), cfg: Config{Name: "c", Store: s, Schedulers: []string{"inproc:a", "inproc:b"}, Plan: cfg, Effort: mono.Millisecond}, view: newView(t.Context(), s), preview: make(chan struct{}, 1)}
	if c.metrics, err = newMetrics(c, nil); err != nil {
		t.Fatal(err)
	}
	l := newLeading(c, t.Context())
	l.observed, l.measured = s.Observed.Writer(t.Context()), s.Profiles.Writer(t.Context())
	for _, cell := range l.cells {
		cell.link = &link{c: c, address: cell.address}
	}
	c.leads.Store(l)
	return &still{t, c, l, 1}
}

// wish has people want models; added is when they said which files they have.
func (s *still) wish(added int64, models ...string) {
	for _, name := range models {
		s.l.wish(mono.Now(), schema.Model{Name: name, Desired: schema.Served, Policy: schema.Policy{Kind: schema.PolicyLatest}, Versions: []schema.ModelVersion{{Version: "1", Source: "file:///m", Added: added}}})
		s.l.grant(mono.Now())
	}
}

// heard are the facts of a scheduler whose GPUs serve models.
func (s *still) heard(i int, models ...string) {
	f, g := &catalog.Facts{Epoch: 1, Whole: true}, catalog.GPUFacts{DeviceType: "t", State: catalog.GPUServing, Memory: 1000}
	for _, name := range models {
		key := name + "/1"
		f.Models = append(f.Models, catalog.ModelFacts{Key: key, DeviceType: "t", Need: 0.1})
		g.Stock = append(g.Stock, catalog.Stocked{Key: key, State: catalog.StateReady, Static: 10, Files: catalog.Files{Digest: catalog.DigestOf([]byte(key))},
			Spec: &catalog.ModelSpec{Name: name, Version: "1", SLO: mono.Second, MaxBatch: 8}})
	}
	for n := range s.gpus {
		g.Name = fmt.Sprintf("h%d/t/%d", i, n)
		f.GPUs = append(f.GPUs, g)
	}
	s.l.facts(mono.Now(), s.l.cells[i], f)
}

// turn does what is due at a scheduler, and has what is stored of it seen.
func (s *still) turn(i int) {
	c := s.l.cells[i]
	s.l.cells.counted()
	c.lead.Step(mono.Now(), &c.effects)
	s.l.carryOut(c)
	s.stored()
}

func (s *still) stored() {
	for len(s.l.plans) > 0 {
		p := <-s.l.plans
		s.c.view.mu.Lock()
		s.c.view.setHead(store.Change[schema.Plan]{ID: p.head.ID(), Value: p.head})
		close(s.c.view.changed)
		s.c.view.changed = make(chan struct{})
		s.c.view.mu.Unlock()
	}
}

// put is a plan with a sub-cluster for each scheduler.
func (s *still) put(a, b []string) error {
	defer s.stored()
	part := func(scheduler string, keys []string) api.PlanPart {
		return api.PlanPart{Name: "x", DeviceType: "t", GPUs: 1, Models: keys, Scheduler: scheduler}
	}
	return s.l.put(mono.Now(), api.PlanSpec{SubClusters: []api.PlanPart{part("inproc:a", a), part("inproc:b", b)}})
}

// is fails unless the last plans have these models.
func (s *still) is(what string, want ...[]string) {
	s.Helper()
	for i, c := range s.l.cells {
		var got []string
		for _, sub := range c.lead.Plan().SubClusters {
			got = append(got, sub.Models...)
		}
		if !slices.Equal(got, want[i]) {
			s.Errorf("%s: the plan of %s has %v, want %v", what, c.name, got, want[i])
		}
	}
}

func (s *still) home(name string, at, to int) {
	s.Helper()
	if a, b := s.l.spread.Home(name); a != at || b != to {
		s.Errorf("%s is at %d and moves to %d, want %d and %d", name, a, b, at, to)
	}
}

// A plan that one of the schedulers refuses moves nothing and is rolled out at none.
func TestPutIsWhole(t *testing.T) {
	s := newStill(t, lead.Config{})
	s.wish(1, "k", "l", "m")
	s.heard(0, "k", "l")
	s.heard(1, "m")
	if err := s.put([]string{"k/1", "l/1"}, []string{"m/1"}); err != nil {
		t.Fatal(err)
	}
	before := s.l.cells[0].lead.Plan().Epoch
	s.wish(2, "m") // its files are other ones, and the GPU of b has those of before
	err := s.put([]string{"l/1"}, []string{"k/1", "m/1"})
	if err == nil || !strings.Contains(err.Error(), "inproc:b: ") || !strings.Contains(err.Error(), "m/1 are being replaced") {
		t.Fatalf("%v", err)
	}
	s.is("refused", []string{"k/1", "l/1"}, []string{"m/1"})
	if after := s.l.cells[0].lead.Plan().Epoch; after != before {
		t.Errorf("a has plan %d after %d", after, before)
	}
	s.home("k", 0, -1)
}

// A model on its way to another scheduler that people's plan has where it comes from is in that
// one's plan alone; where only the other serves it by now, that one keeps it until it is back.
func TestPutTurnsMovesRound(t *testing.T) {
	for _, c := range []struct {
		what   string
		a      []string // served at a, after it has come to b
		plans  [][]string
		at, to int
	}{
		{"both serve it", []string{"k", "l"}, [][]string{{"k/1", "l/1"}, {"m/1"}}, 0, -1},
		{"only b serves it", []string{"l"}, [][]string{{"k/1", "l/1"}, {"k/1", "m/1"}}, 1, 0},
	} {
		s := newStill(t, lead.Config{})
		s.wish(1, "k", "l", "m")
		s.heard(0, "k", "l")
		s.heard(1, "m")
		if err := s.put([]string{"l/1"}, []string{"k/1", "m/1"}); err != nil {
			t.Fatal(err)
		}
		s.home("k", 0, 1)
		s.is(c.what, []string{"k/1", "l/1"}, []string{"k/1", "m/1"})
		s.heard(1, "k", "m")
		s.heard(0, c.a...)
		if err := s.put([]string{"k/1", "l/1"}, []string{"m/1"}); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		s.is(c.what, c.plans...)
		s.home("k", c.at, c.to)
	}
}

// Apply ends when each scheduler has made a plan, or found that nothing is to change: not with the
// first one's.
func TestApplyWaitsForAll(t *testing.T) {
	s := newStill(t, lead.Config{})
	s.wish(1, "k", "l")
	s.heard(0, "k")
	s.heard(1, "l")
	if err := s.put([]string{"k/1"}, []string{"l/1"}); err != nil {
		t.Fatal(err)
	}
	last := s.l.cells[1].lead.Plan().Epoch
	type answer struct {
		plan api.Plan
		err  error
	}
	for _, changes := range []bool{true, false} { // people's plan goes; nothing changes
		got := make(chan answer, 1)
		go func() {
			p, err := s.c.Apply(t.Context())
			got <- answer{p, err}
		}()
		(<-s.l.calls)() // the order
		s.turn(0)
		for range 6 { // looks
			select {
			case f := <-s.l.calls:
				f()
			case a := <-got:
				t.Fatalf("it ends before b has planned: %+v", a)
			}
		}
		s.turn(1)
		var a answer
		for a.plan.Epoch == 0 && a.err == nil {
			select {
			case f := <-s.l.calls:
				f()
			case a = <-got:
			}
		}
		if a.err != nil || len(a.plan.Plans) != 2 || changes != (a.plan.Epoch > last) {
			t.Fatalf("%+v after %d", a, last)
		}
		for _, p := range a.plan.Plans {
			if p.Cause == lead.ByHand || p.Epoch <= last == changes {
				t.Errorf("%+v after %d", p, last)
			}
		}
		last = a.plan.Epoch
	}
}

// What a device type's plan lacks is said with the scheduler.
func TestDiffNamesSchedulers(t *testing.T) {
	s := newStill(t, lead.Config{SubClusters: 2, ModelsMax: 1})
	s.gpus = 2
	s.wish(1, "k", "l", "m")
	s.heard(0, "k", "l", "m")
	s.heard(1)
	go func() {
		for {
			select {
			case f := <-s.l.calls:
				f()
			case <-t.Context().Done():
				return
			}
		}
	}()
	d, err := s.c.Diff(t.Context())
	if err != nil || len(d.Kept) != 1 || !strings.HasPrefix(d.Kept[0], "inproc:a: device type t: ") {
		t.Errorf("%+v, %v", d, err)
	}
}
