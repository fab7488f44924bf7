package frontend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// told is a scheduler's side of a catalogue: what there is, and since which serial.
type told struct {
	serial uint64
	models map[wire.ModelID]*toldModel
	pools  map[subCluster]*toldPool
	names  map[string]*toldName
}

type toldName struct {
	shares  []catalog.Share
	changed uint64
}

type toldModel struct {
	catalog.Served
	changed uint64
	gone    bool
}

type toldPool struct {
	gpus    int
	changed uint64
}

func newTold() *told {
	return &told{models: map[wire.ModelID]*toldModel{}, pools: map[subCluster]*toldPool{}, names: map[string]*toldName{}}
}

// change lets a model come, change or go, or devices come and go.
func (w *told) change(r *rapid.T) {
	w.serial++
	in := subCluster{rapid.SampledFrom([]string{"cpu", "a100"}).Draw(r, "device type"), rapid.SampledFrom([]string{"", "s1", "s2"}).Draw(r, "sub-cluster")}
	switch rapid.IntRange(0, 3).Draw(r, "what") {
	case 0, 1:
		w.pools[in] = &toldPool{rapid.IntRange(0, 2).Draw(r, "gpus"), w.serial}
		return
	case 2:
		w.names[rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name")] = &toldName{drawShares(r), w.serial}
		return
	}
	id := wire.ModelID(rapid.IntRange(0, 5).Draw(r, "id"))
	if m := w.models[id]; m != nil && !m.gone && rapid.Bool().Draw(r, "gone") {
		m.gone, m.changed = true, w.serial
		return
	}
	spec := catalog.ModelSpec{Name: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "name"), Version: rapid.SampledFrom([]string{"1", "9", "10"}).Draw(r, "version"),
		SLO: mono.Dur(rapid.IntRange(1, 3).Draw(r, "slo")), MaxBatch: 1, Inputs: vector(1), Outputs: vector(1)}
	for other, m := range w.models {
		if !m.gone && m.Spec.Key() == spec.Key() {
			id = other // it has an id already: it changes
		}
	}
	w.models[id] = &toldModel{Served: catalog.Served{ID: id, DeviceType: in.deviceType, SubCluster: in.name, Spec: spec}, changed: w.serial}
}

func drawShares(r *rapid.T) (shares []catalog.Share) {
	for _, version := range []string{"1", "9", "10", "gone"} {
		if w := rapid.Uint32Range(0, 4).Draw(r, "weight of "+version); w > 0 || rapid.Bool().Draw(r, "in it all the same") {
			shares = append(shares, catalog.Share{Version: version, Weight: w})
		}
	}
	return shares
}

// after is what changed after since, and up to a serial.
func (w *told) after(epoch wire.Epoch, since, upTo uint64) catalog.Changes {
	ch := catalog.Changes{Epoch: epoch, Since: since, Serial: upTo, More: upTo < w.serial}
	in := func(changed uint64) bool { return changed > since && changed <= upTo }
	for id, m := range w.models {
		switch {
		case !in(m.changed):
		case m.gone && since > 0:
			ch.Gone = append(ch.Gone, id)
		case !m.gone:
			ch.Models = append(ch.Models, m.Served)
		}
	}
	for of, p := range w.pools {
		if in(p.changed) {
			ch.Pools = append(ch.Pools, catalog.PoolState{DeviceType: of.deviceType, SubCluster: of.name, GPUs: p.gpus})
		}
	}
	for name, n := range w.names {
		if in(n.changed) {
			ch.Names = append(ch.Names, catalog.Name{Name: name, Shares: n.shares})
		}
	}
	return ch
}

// entries are the whole catalogue.
func (w *told) entries() []catalog.Entry {
	all := []catalog.Entry{}
	for _, m := range w.models {
		if m.gone {
			continue
		}
		e := catalog.Entry{ID: m.ID, DeviceType: m.DeviceType, Spec: m.Spec}
		if p := w.pools[subCluster{m.DeviceType, m.SubCluster}]; p != nil {
			e.GPUs, e.Ready = p.gpus, p.gpus > 0
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b catalog.Entry) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// follower is a client beside what it ought to know.
type follower struct {
	*rapid.T
	c      *Client
	link   *fakeLink
	world  *told
	epoch  wire.Epoch
	serial uint64          // that the client knows
	whole  []catalog.Entry // that it was told last; nil: none in this admission
	names  map[string][]catalog.Share
	before map[string]bool // names that an admission before had
}

// TestCatalogueFollowsChanges: in whatever parts the changes come, with ids used again,
// models that go and pools that come and go, the client has the scheduler's catalogue once
// it has all of them, and the one before until then. Changes that do not follow end the
// link, and the next one begins from nothing.
func TestCatalogueFollowsChanges(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := &follower{T: r, c: alone(t, nil), world: newTold(), epoch: 1, before: map[string]bool{}}
		defer f.c.Close()
		if f.c.Ready() || f.c.Models().Entries != nil {
			r.Fatal("there is a catalogue before there is a scheduler")
		}
		f.join()
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0:
				f.gap()
			case 1, 2, 3:
				f.part()
			default:
				f.world.change(r)
			}
			f.check()
		}
		for f.serial < f.world.serial || f.whole == nil {
			f.part()
		}
		f.check()
	})
}

func (f *follower) join() {
	f.link, f.serial = &fakeLink{}, 0
	if f.whole != nil {
		for _, e := range f.whole {
			f.before[e.Spec.Name] = true
		}
	}
	f.whole = nil
	f.c.tell(f.link, wire.DocAdmitted, catalog.Admitted{Epoch: f.epoch, Frontend: 3})
	if !f.c.Ready() {
		f.Fatal("not ready after the admission")
	}
}

// part tells the next part, perhaps the last.
func (f *follower) part() {
	ch := f.world.after(f.epoch, f.serial, f.serial+uint64(rapid.IntRange(0, int(f.world.serial-f.serial)).Draw(f.T, "up to")))
	f.c.tell(f.link, wire.DocChanges, ch)
	if err := f.link.cause(); err != nil {
		f.Fatal(err)
	}
	f.serial = ch.Serial
	if !ch.More {
		f.whole, f.names = f.world.entries(), map[string][]catalog.Share{}
		for name, n := range f.world.names {
			f.names[name] = n.shares
		}
	}
}

// gap tells changes that do not follow what came before.
func (f *follower) gap() {
	f.world.change(f.T)
	ch := f.world.after(f.epoch, f.serial, f.world.serial)
	switch rapid.IntRange(0, 3).Draw(f.T, "gap") {
	case 0:
		ch.Since++
	case 1:
		ch.Since--
	case 2:
		ch.Epoch++
	default:
		ch.Serial = ch.Since - 1
		if ch.Since == 0 {
			ch.Since, ch.Serial = 2, 1
		}
	}
	f.c.tell(f.link, wire.DocChanges, ch)
	if err := f.link.cause(); !errors.Is(err, transport.ErrProtocol) || !errors.Is(err, errChanges) {
		f.Fatalf("%+v after %d of %d: %v", ch, f.serial, f.epoch, err)
	}
	f.c.lose(f.link)
	if f.c.Ready() {
		f.Fatal("ready without a scheduler")
	}
	if rapid.Bool().Draw(f.T, "restart") { // of the scheduler: ids and serials begin anew
		f.epoch++
		f.world = newTold()
		f.world.change(f.T)
	}
	f.join()
}

func (f *follower) check() {
	got := f.c.Models()
	if f.whole == nil {
		if _, err := f.c.Model("a", ""); got.Entries != nil || !errors.Is(err, ErrUnavailable) {
			f.Fatalf("%+v, %v before the catalogue is whole", got, err)
		}
		return
	}
	if got.Epoch != f.epoch {
		f.Fatalf("epoch %d, want %d", got.Epoch, f.epoch)
	}
	whole := f.serial == f.world.serial
	ready := map[wire.ModelID]bool{}
	for i := range got.Entries {
		ready[got.Entries[i].ID] = got.Entries[i].Ready
		if !whole { // devices come and go at once, models all together
			got.Entries[i].GPUs, got.Entries[i].Ready = 0, false
		}
	}
	want := f.whole
	if !whole {
		want = slices.Clone(want)
		for i := range want {
			want[i].GPUs, want[i].Ready = 0, false
		}
	}
	if !reflect.DeepEqual(got.Entries, want) {
		f.Fatalf("the client has\n%+v, want\n%+v", got.Entries, want)
	}
	for _, name := range []string{"a", "b", "c"} {
		f.checkName(name, want, ready)
	}
}

// checkName asks for each version of a model, and for the one that stands for the name.
func (f *follower) checkName(name string, all []catalog.Entry, ready map[wire.ModelID]bool) {
	ids, weights := map[string]wire.ModelID{}, map[string]uint32{}
	for _, e := range all {
		if e.Spec.Name == name {
			ids[e.Spec.Version] = e.ID
		}
	}
	for _, s := range f.names[name] {
		weights[s.Version] = s.Weight
	}
	best, rank := "", -1
	for i, version := range []string{"1", "9", "10"} { // "10" is above "9"
		id, ok := ids[version]
		score := i
		if ready[id] {
			score += 10 + 100*int(weights[version])
		}
		if ok && score > rank {
			best, rank = version, score
		}
	}
	if len(ids) > 0 {
		ids[""] = ids[best]
	}
	f.checkChoice(name, ids, weights, ready)
	for _, version := range []string{"", "1", "9", "10"} {
		e, err := f.c.Model(name, version)
		id, ok := ids[version]
		switch {
		case ok && (err != nil || e.ID != id):
			f.Fatalf("%s/%s is %d, %v; want %d", name, version, e.ID, err, id)
		case !ok && len(ids) == 0 && f.before[name] && !errors.Is(err, ErrUnavailable):
			f.Fatalf("%s/%s may come back: %v", name, version, err)
		case !ok && (len(ids) > 0 || !f.before[name]) && !errors.Is(err, ErrUnknownModel):
			f.Fatalf("%s/%s: %v, want ErrUnknownModel", name, version, err)
		}
	}
}

// checkChoice asks which version the next request goes to: a ready one where there is one, and
// one with a share where one of those is ready.
func (f *follower) checkChoice(name string, ids map[string]wire.ModelID, weights map[string]uint32, ready map[wire.ModelID]bool) {
	anyReady, anyShared := false, false
	for version, id := range ids {
		anyReady = anyReady || ready[id]
		anyShared = anyShared || ready[id] && weights[version] > 0
	}
	e, err := f.c.Choose(name, "")
	if len(ids) == 0 {
		if err == nil {
			f.Fatalf("%s is not there, and chosen as %s", name, e.Spec.Version)
		}
		return
	}
	if err != nil || e.Ready != anyReady || (weights[e.Spec.Version] > 0) != anyShared && anyReady {
		f.Fatalf("%s: chosen %+v, %v; ids %v, weights %v, ready %v", name, e, err, ids, weights, ready)
	}
}

// A client that missed changes closes its link, and what it gets on the next one is whole.
func TestGapJoinsAnew(t *testing.T) {
	c := newCluster(t)
	client := c.dial(nil)
	c.mu.Lock()
	first := c.control
	c.mu.Unlock()
	transport.SendDoc(first, wire.DocChanges, catalog.Changes{Epoch: c.doc.Epoch, Since: 17, Serial: 18, Gone: []wire.ModelID{1}})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		again := c.control != first
		c.mu.Unlock()
		if again && client.Ready() && len(client.Models().Entries) == len(c.doc.Entries) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after 20 s: another link %v, ready %v, catalogue %+v", again, client.Ready(), client.Models())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := client.WaitReady(ctx, "echo"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Infer(ctx, echo(1)); err != nil {
		t.Error(err)
	}
}

// Changes before an admission have nothing to follow.
func TestChangesBeforeAdmission(t *testing.T) {
	c, l := alone(t, nil), &fakeLink{}
	c.tell(l, wire.DocChanges, catalog.Changes{Epoch: 1, Serial: 1})
	if err := l.cause(); !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("%v", err)
	}
	for name, payload := range map[string]any{"text": "x", "number": 7, "models": map[string]any{"models": 3}} {
		c, l = alone(t, nil), &fakeLink{}
		c.tell(l, wire.DocAdmitted, catalog.Admitted{Epoch: 1})
		c.tell(l, wire.DocChanges, payload)
		if err := l.cause(); !errors.Is(err, transport.ErrProtocol) || c.Models().Entries != nil {
			t.Errorf("%s: %v", name, fmt.Sprint(err))
		}
	}
}
