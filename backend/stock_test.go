package backend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fakeShelf is a Shelf of folders that lie here already.
type fakeShelf struct {
	mu    sync.Mutex
	fails error         // of all that is fetched
	holds chan struct{} // not nil: fetching waits for its end
	lent  int
}

func (f *fakeShelf) Fetch(ctx context.Context, s *catalog.Source, progress func(done, total int64)) (string, func(), error) {
	f.mu.Lock()
	fails, holds := f.fails, f.holds
	f.mu.Unlock()
	progress(1, 10)
	if holds != nil {
		select {
		case <-holds:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
	if fails != nil {
		return "", nil, fails
	}
	f.mu.Lock()
	f.lent++
	f.mu.Unlock()
	return strings.TrimPrefix(s.URL, "file://"), func() {
		f.mu.Lock()
		f.lent--
		f.mu.Unlock()
	}, nil
}

func (f *fakeShelf) Close() error { return nil }

func (f *fakeShelf) Digest(dir, _ string) (catalog.Digest, int64, error) {
	text, err := os.ReadFile(filepath.Join(dir, "config.yaml"))
	return catalog.DigestOf(text), int64(len(text)), err
}

func (f *fakeShelf) set(fails error, holds chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.holds = fails, holds
}

func (f *fakeShelf) lends() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lent
}

const emulatedModel = `platform: emulated
device_type: e
slo: 50ms
max_batch: 8
profile: {alpha_ms: 0.1, beta_ms: 0.5}
inputs: [{name: x, type: FP32, shape: [8]}]
outputs: [{name: y, type: FP32, shape: [8]}]
`

// source writes an emulated model and says where it is.
func source(t *testing.T, name, version, more string) catalog.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(emulatedModel+more), 0o644); err != nil {
		t.Fatal(err)
	}
	return catalog.Source{Name: name, Version: version, URL: "file://" + dir}
}

// stocking is a cluster of a backend without models, which gets them.
type stocking struct {
	*cluster
	b        *Backend
	shelf    *fakeShelf
	log      *lines
	registry *prometheus.Registry
}

func newStocking(t *testing.T, change ...func(*Config)) *stocking {
	t.Helper()
	s := &stocking{cluster: newCluster(t), shelf: &fakeShelf{}, log: &lines{}, registry: prometheus.NewRegistry()}
	s.b = s.backend(append([]func(*Config){func(cfg *Config) {
		cfg.Pools[0].Zoo, cfg.Shelf, cfg.Logger, cfg.Metrics = nil, s.shelf, zerolog.New(s.log), s.registry
	}}, change...)...)
	return s
}

// admitted begins an epoch without binding anything.
func (s *stocking) admitted(epoch wire.Epoch) {
	s.t.Helper()
	s.tell(wire.DocAdmitted, catalog.Admitted{Epoch: epoch})
	s.member(epoch, 3, 3, "inproc:f")
	s.wait("the data link", func() bool { return s.b.Ready() && s.b.data(3) != nil })
}

func (s *stocking) end() {
	s.b.Close()
	s.close()
	if n := s.shelf.lends(); n != 0 {
		s.t.Errorf("files of %d models were not given back", n)
	}
}

// stocks are all that the scheduler was told, in order. Caller holds mu.
func (c *cluster) stocks() (all []catalog.Stocked) {
	for _, d := range c.docs {
		if d.kind != wire.DocStock {
			continue
		}
		doc, err := catalog.DecodeStock(d.payload)
		if err != nil {
			c.t.Error(err)
		}
		all = append(all, doc.Models...)
	}
	return all
}

// last is what the scheduler was told of a model last. Caller holds mu.
func (c *cluster) last(key string) (last catalog.Stocked) {
	for _, s := range c.stocks() {
		if s.Key == key {
			spec := s.Spec
			if spec == nil && s.State != catalog.StateGone {
				spec = last.Spec
			}
			last = s
			last.Spec = spec
		}
	}
	return last
}

// until waits until the scheduler was told a state of a model, with devices.
func (c *cluster) until(key, state string, devices ...int) (last catalog.Stocked) {
	c.t.Helper()
	c.wait(fmt.Sprintf("%s: %s on %v", key, state, devices), func() bool {
		last = c.last(key)
		return last.State == state && slices.Equal(last.Devices, devices)
	})
	return last
}

// bindTo gives models ids.
func (c *cluster) bindTo(ids map[string]wire.ModelID) {
	var doc catalog.Bound
	c.mu.Lock()
	for key, id := range ids {
		doc.Slots, doc.IDs = append(doc.Slots, c.last(key).Slot), append(doc.IDs, id)
	}
	c.mu.Unlock()
	c.tell(wire.DocBound, doc)
}

func (c *cluster) keep(k catalog.Keep) { c.tell(wire.DocKeep, k) }

// orderOn sends a batch of one request to a device, and waits for its report.
func (c *cluster) orderOn(device int, epoch wire.Epoch, id wire.BatchID, model wire.ModelID) wire.Done {
	c.t.Helper()
	now := mono.Now()
	m := wire.Batch{Epoch: epoch, Batch: id, Model: model, Device: uint32(device), Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
		{Request: wire.RequestID(id), Frontend: 3, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: 32}}}}
	_ = c.control().Send(m.Append(nil))
	var done wire.Done
	c.wait("a report", func() bool {
		i := slices.IndexFunc(c.dones, func(d wire.Done) bool { return d.Batch == id })
		if i >= 0 {
			done = c.dones[i]
		}
		return i >= 0
	})
	return done
}

// A model comes onto one device and then the other, serves there, gets other settings without
// being loaded again, and goes. Each order that is given again is answered and changes nothing.
func TestModelComesAndGoes(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	if p := s.info.Pools[0]; !p.Runtime || p.In != nil || !p.Models.Valid() {
		t.Errorf("introduced as %+v", p)
	}
	s.admitted(100)
	m := source(t, "m", "7", "memory: {static: 3MiB, dynamic: 1MiB}\n")
	s.keep(catalog.Keep{Device: 1, In: "east", Load: []catalog.Source{m}})
	got := s.until("m/7", catalog.StateReady, 1)
	if got.Spec == nil || got.Spec.Key() != "m/7" || got.Spec.SLO != 50*mono.Millisecond || got.Spec.MaxBatch != 8 || got.Static != 3<<20 || got.Dynamic != 1<<20 || got.Local {
		t.Errorf("told %+v", got)
	}
	s.bindTo(map[string]wire.ModelID{"m/7": 42})
	if d := s.orderOn(1, 100, 1, 42); d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
	if d := s.orderOn(0, 100, 2, 42); d.Reason != wire.ReasonExecution { // it is not there
		t.Errorf("report %+v", d)
	}
	m.SLO, m.MaxBatch, m.DropPolicy = int64(80*mono.Millisecond), 4, "head"
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{m}})
	got = s.until("m/7", catalog.StateReady, 0, 1)
	if sp := got.Spec; sp.SLO != 80*mono.Millisecond || sp.MaxBatch != 4 || sp.DropPolicy != "head" {
		t.Errorf("told %+v", sp)
	}
	if d := s.orderOn(0, 100, 3, 42); d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
	slot := got.Slot
	for i := range 3 { // again: an answer, no change
		n := s.told()
		s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{m}})
		s.wait("an answer", func() bool { return len(s.stocks()) > n })
		if got := s.until("m/7", catalog.StateReady, 0, 1); got.Slot != slot {
			t.Errorf("%d: told %+v", i, got)
		}
	}
	s.keep(catalog.Keep{Device: 0, In: "west", Unload: []string{"m/7"}})
	s.until("m/7", catalog.StateReady, 1)
	if d := s.orderOn(0, 100, 4, 42); d.Reason != wire.ReasonExecution {
		t.Errorf("report %+v", d)
	}
	s.keep(catalog.Keep{Device: 1, In: "east", Unload: []string{"m/7", "never/1"}})
	s.until("m/7", catalog.StateGone)
	s.until("never/1", catalog.StateGone)
	if d := s.orderOn(1, 100, 5, 42); d.Reason != wire.ReasonExecution {
		t.Errorf("report %+v", d)
	}
	if n := s.shelf.lends(); n != 0 {
		t.Errorf("%d files are held", n)
	}
}

// told is how much the scheduler was told.
func (c *cluster) told() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.stocks())
}

// What fails says why, in the log once, by metric and Stock; the others serve, and what is
// mended is taken up, at once when it is ordered anew. It fits when room is made.
func TestModelsThatFail(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t, func(c *Config) { c.Pools[0].Memory = 10 << 20 })
	defer s.end()
	s.admitted(100)
	good := source(t, "good", "1", "memory: {static: 6MiB, dynamic: 1MiB}\n")
	large := source(t, "large", "1", "memory: {static: 3MiB, dynamic: 2MiB}\n")
	broken := source(t, "broken", "1", "max_batches: 4\n")
	s.keep(catalog.Keep{Load: []catalog.Source{good}})
	s.until("good/1", catalog.StateReady, 0)
	s.keep(catalog.Keep{Load: []catalog.Source{large, broken, {Name: "none", Version: "1", URL: "file:///nowhere"}}})
	for key, want := range map[string][]string{"large/1": {"it needs 4.0 MiB, 3.0 MiB is free", "10.0 MiB"}, "broken/1": {"max_batches"}, "none/1": {"nowhere"}} {
		got := s.until(key, catalog.StateFailed)
		if key == "large/1" && (got.Static != 3<<20 || got.Dynamic != 2<<20) {
			t.Errorf("what it needs is not told: %+v", got)
		}
		for _, w := range want {
			if !strings.Contains(got.Error, w) {
				t.Errorf("%s: %q is missing in %q", key, w, got.Error)
			}
			if n := len(s.log.about("not served", key, w)); n != 1 {
				t.Errorf("%s: %d lines in the log, want 1", key, n)
			}
		}
	}
	if n := modelsIn(t, s.registry, catalog.StateFailed); n != 3 {
		t.Errorf("%v have failed by the metric, want 3", n)
	}
	s.bindTo(map[string]wire.ModelID{"good/1": 9})
	if d := s.orderOn(0, 100, 1, 9); d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
	dir := strings.TrimPrefix(broken.URL, "file://")
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(emulatedModel), 0o644); err != nil {
		t.Fatal(err)
	}
	s.keep(catalog.Keep{Load: []catalog.Source{broken}})
	s.until("broken/1", catalog.StateReady, 0)
	filler := source(t, "filler", "1", "memory: {static: 2MiB}\n")
	s.keep(catalog.Keep{Load: []catalog.Source{filler}})
	s.until("filler/1", catalog.StateReady, 0)
	s.keep(catalog.Keep{Unload: []string{"filler/1"}}) // large is tried again, in vain
	s.until("filler/1", catalog.StateGone)
	if n := len(s.log.about("not served", "large/1")); n != 1 {
		t.Errorf("large/1 is told %d times", n)
	}
	s.keep(catalog.Keep{Unload: []string{"good/1", "none/1"}})
	s.until("none/1", catalog.StateGone)
	s.until("large/1", catalog.StateReady, 0)
}

// modelsIn is the metric of a state.
func modelsIn(t *testing.T, r *prometheus.Registry, state string) (n float64) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			if f.GetName() != "symphony_backend_models" {
				continue
			}
			for _, l := range m.GetLabel() {
				if l.GetName() == "state" && l.GetValue() == state {
					n += m.GetGauge().GetValue()
				}
			}
		}
	}
	return n
}

// What cannot be fetched is tried again by itself, and what is unloaded meanwhile is stopped:
// its files are given back, and it is gone. A contrary order overtakes one under way.
func TestFetching(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	m, slow := source(t, "m", "1", ""), source(t, "slow", "1", "load: 1h\n")
	s.shelf.set(errors.New("the store is away"), nil)
	s.keep(catalog.Keep{Load: []catalog.Source{m}})
	if got := s.until("m/1", catalog.StateFailed); !strings.Contains(got.Error, "the store is away") {
		t.Errorf("told %+v", got)
	}
	s.shelf.set(nil, nil)
	s.until("m/1", catalog.StateReady, 0) // nobody ordered it again
	s.keep(catalog.Keep{Unload: []string{"m/1"}})
	s.until("m/1", catalog.StateGone)

	holds := make(chan struct{})
	s.shelf.set(nil, holds)
	s.keep(catalog.Keep{Load: []catalog.Source{m}})
	s.wait("progress", func() bool {
		l := s.last("m/1")
		return l.State == catalog.StateFetching && l.Done == 1 && l.Total == 10
	})
	s.keep(catalog.Keep{Unload: []string{"m/1"}})
	s.until("m/1", catalog.StateGone)
	close(holds)
	s.shelf.set(nil, nil)

	s.keep(catalog.Keep{Load: []catalog.Source{slow, m}})
	s.until("slow/1", catalog.StateLoading)
	s.keep(catalog.Keep{Unload: []string{"slow/1"}})
	s.until("slow/1", catalog.StateGone)
	s.until("m/1", catalog.StateReady, 0)
	// The same key with other files: on the same device it takes the old one's place, beside
	// another device that has these it is refused.
	other := source(t, "m", "1", "load: 1ms\n")
	s.keep(catalog.Keep{Load: []catalog.Source{other}})
	s.wait("the files", func() bool { l := s.last("m/1"); return l.State == catalog.StateReady && s.b.pools[0].stock.has() == 1 })
	s.keep(catalog.Keep{Device: 1, Load: []catalog.Source{m}})
	if got := s.until("m/1", catalog.StateFailed, 0); !strings.Contains(got.Error, "with other files") {
		t.Errorf("told %+v", got)
	}
}

// A scheduler that is away misses nothing: what is here is in the next introduction, with the
// sub-clusters, and what differs from it is told after admission. Ids of before do not lead
// anywhere else.
func TestSchedulerAway(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	all, one, bad := source(t, "all", "1", ""), source(t, "one", "1", ""), source(t, "bad", "1", "slo: 50ms\n")
	for d, in := range []string{"east", catalog.Nowhere} {
		told := &catalog.Told{SubCluster: "east", Epoch: 100, Serial: 7, Whole: true, Keys: []string{"all/1", "old/1"}}
		if d == 1 {
			told = &catalog.Told{SubCluster: "west", Epoch: 100, Serial: 8, Whole: true, Keys: []string{"x/1"}} // nobody is there
		}
		s.keep(catalog.Keep{Device: d, In: in, Told: told, Load: []catalog.Source{all}})
	}
	s.keep(catalog.Keep{Device: 0, In: "east", Told: &catalog.Told{SubCluster: "east", Epoch: 100, Serial: 9, Keys: []string{"late/1"}, Gone: []string{"old/1"}}})
	s.keep(catalog.Keep{Device: 0, In: "east", Told: &catalog.Told{SubCluster: "east", Epoch: 99, Serial: 99, Whole: true, Keys: []string{"of before/1"}}})
	s.keep(catalog.Keep{Device: 1, In: catalog.Nowhere, Load: []catalog.Source{one, bad}})
	s.until("all/1", catalog.StateReady, 0, 1)
	s.until("one/1", catalog.StateReady, 1)
	s.until("bad/1", catalog.StateFailed)
	s.bindTo(map[string]wire.ModelID{"all/1": 5, "one/1": 6})
	if d := s.orderOn(1, 100, 1, 6); d.Reason != wire.ReasonNone {
		t.Errorf("report %+v", d)
	}
	old := s.control()
	late := source(t, "late", "1", "load: 100ms\n")
	s.keep(catalog.Keep{Device: 0, In: "east", Load: []catalog.Source{late}})
	s.until("late/1", catalog.StateLoading)
	old.Close(nil)
	s.wait("a new introduction", func() bool { return s.link != nil && s.link != old })
	s.mu.Lock()
	s.docs = nil
	p := s.info.Pools[0]
	s.mu.Unlock()
	if !slices.Equal(p.In, []string{"east", catalog.Nowhere}) || !slices.Equal(p.Ordered, []int{0}) {
		t.Errorf("introduced as %+v", p)
	}
	if len(p.Told) != 1 || p.Told[0].SubCluster != "east" || p.Told[0].Epoch != 100 || p.Told[0].Serial != 9 || !slices.Equal(p.Told[0].Keys, []string{"all/1", "late/1"}) {
		t.Errorf("it repeats %+v", p.Told)
	}
	s.tell(wire.DocWant, catalog.Want{Models: p.Models})
	s.wait("the list", func() bool {
		return slices.ContainsFunc(s.docs, func(d document) bool { return d.kind == wire.DocModels })
	})
	list, err := catalog.DecodeModels(s.docs[0].payload)
	if err != nil || len(list.Models) != 1 || list.Models[0].Key() != "all/1" {
		t.Errorf("listed %+v, %v", list, err)
	}
	s.admitted(200)
	s.tell(wire.DocBound, catalog.Bound{IDs: []wire.ModelID{15}})
	if got := s.until("one/1", catalog.StateReady, 1); got.Spec == nil || got.Slot == 0 {
		t.Errorf("told %+v", got)
	}
	s.until("bad/1", catalog.StateFailed)
	s.until("late/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"one/1": 16, "late/1": 17})
	for i, c := range []struct {
		device int
		model  wire.ModelID
		reason wire.Reason
	}{{0, 15, wire.ReasonNone}, {1, 15, wire.ReasonNone}, {1, 16, wire.ReasonNone}, {0, 17, wire.ReasonNone}, {0, 16, wire.ReasonExecution}, {1, 6, wire.ReasonExecution}} {
		if d := s.orderOn(c.device, 200, wire.BatchID(10+i), c.model); d.Reason != c.reason {
			t.Errorf("model %d on %d: %+v", c.model, c.device, d)
		}
	}
	if got := s.last("all/1"); got.Key != "" {
		t.Errorf("what the introduction says is told again: %+v", got)
	}
}

// Orders that make no sense end the link with a reason.
func TestWrongKeep(t *testing.T) {
	for why, doc := range map[string]any{
		"device 2 of pool 0": catalog.Keep{Device: 2},
		"device 0 of pool 1": catalog.Keep{Pool: 1},
		"device -1":          catalog.Keep{Device: -1},
		"cannot unmarshal":   "what",
	} {
		s := newStocking(t)
		s.admitted(100)
		first := s.control()
		s.tell(wire.DocKeep, doc)
		s.wait("a new registration", func() bool { return s.link != nil && s.link != first })
		if len(s.log.about("lost the scheduler", why)) != 1 {
			t.Errorf("%s: not said in\n%s", why, s.log.all.String())
		}
		s.end()
	}
}

// A model that is unloaded under load runs what it has, refuses what comes, and another one in
// its slot gets none of its batches.
func TestUnloadUnderLoad(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := newStocking(t)
	defer s.end()
	s.admitted(100)
	stays := source(t, "stays", "1", "")
	s.keep(catalog.Keep{Load: []catalog.Source{stays}})
	s.until("stays/1", catalog.StateReady, 0)
	s.bindTo(map[string]wire.ModelID{"stays/1": 1})
	stop, ended := make(chan struct{}), make(chan struct{})
	var sent wire.BatchID
	go func() {
		defer close(ended)
		for id := wire.BatchID(1000); ; id++ {
			select {
			case <-stop:
				return
			default:
			}
			model := wire.ModelID(1)
			if id%2 == 0 {
				model = 2 // it comes and goes
			}
			now := mono.Now()
			m := wire.Batch{Epoch: 100, Batch: id, Model: model, Exec: now, Until: now, Latest: mono.Never, Items: []wire.BatchItem{
				{Request: wire.RequestID(id), Frontend: 3, Deadline: now.Add(20 * mono.Second), Input: wire.SlabRef{Length: 32}}}}
			_ = s.control().Send(m.Append(nil))
			sent = id - 999
			time.Sleep(time.Millisecond)
		}
	}()
	for i := range 20 {
		name := fmt.Sprintf("m%d", i)
		s.keep(catalog.Keep{Load: []catalog.Source{source(t, name, "1", "")}})
		s.until(name+"/1", catalog.StateReady, 0)
		s.bindTo(map[string]wire.ModelID{name + "/1": 2})
		time.Sleep(5 * time.Millisecond)
		s.keep(catalog.Keep{Unload: []string{name + "/1"}})
		s.until(name+"/1", catalog.StateGone)
	}
	close(stop)
	<-ended
	s.wait("all reports", func() bool { return len(s.dones) == int(sent) })
	ran := 0
	for _, d := range s.dones {
		switch {
		case d.Batch%2 == 1 && d.Reason == wire.ReasonExecution:
			t.Errorf("the other's batch failed: %+v", d)
		case d.Batch%2 == 0 && d.Reason == wire.ReasonNone:
			ran++
		}
	}
	if ran == 0 {
		t.Error("no batch of those that come and go has run")
	}
	if len(s.b.pools[0].stock.slots) > 2 {
		t.Errorf("%d slots for two models at a time", len(s.b.pools[0].stock.slots))
	}
}
