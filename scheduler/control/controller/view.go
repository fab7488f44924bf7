package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// view is the store as this process has seen it last: it answers also while the store is away.
type view struct {
	store  *store.Store
	ctx    context.Context // ends with the controller
	synced chan struct{}   // closed once all tables have been seen whole

	mu       sync.Mutex // Guards what follows.
	models   map[string]store.Entry[schema.Model]
	observed map[string]map[string]schema.Observation // name -> version
	loads    map[string]schema.Load                   // by key
	measured map[string]map[string]schema.Measured    // by id of the version, then its own
	heads    map[uint64]schema.Plan
	epochs   schema.Control
	revs     map[string]uint64 // of a model's last change, of whatever kind
	changed  chan struct{}     // closed at the next change of models
	dirty    map[string]bool   // models whose wishes have changed, for the leader; nil: another one leads
	poked    chan struct{}     // has a token when dirty, epochs or measured have changed
	whole    int               // tables seen whole
}

// tables is how many a view follows.
const tables = 6

func newView(ctx context.Context, s *store.Store) *view {
	return &view{store: s, ctx: ctx, synced: make(chan struct{}), models: map[string]store.Entry[schema.Model]{}, observed: map[string]map[string]schema.Observation{},
		loads: map[string]schema.Load{}, measured: map[string]map[string]schema.Measured{}, heads: map[uint64]schema.Plan{}, revs: map[string]uint64{},
		changed: make(chan struct{}), poked: make(chan struct{}, 1)}
}

// run follows the tables until the context ends.
func (v *view) run() {
	var all sync.WaitGroup
	all.Go(func() { follow(v, v.store.Models.Watch(v.ctx, 0), v.setModel) })
	all.Go(func() { follow(v, v.store.Observed.Watch(v.ctx, 0), v.setObserved) })
	all.Go(func() { follow(v, v.store.Loads.Watch(v.ctx, 0), v.setLoad) })
	all.Go(func() { follow(v, v.store.Profiles.Watch(v.ctx, 0), v.setMeasured) })
	all.Go(func() { follow(v, v.store.Plans.Watch(v.ctx, 0), v.setHead) })
	all.Go(func() { follow(v, v.store.Controls.Watch(v.ctx, 0), v.setControl) })
	all.Wait()
}

// follow hands a table's changes to set, with mu held. old is what there was under the id;
// after a gap in the watch only what differs is told.
func follow[T schema.Document](v *view, w *store.Watch[T], set func(store.Change[T])) {
	first := true
	for {
		all, err := w.Next(v.ctx)
		if err != nil {
			return
		}
		v.mu.Lock()
		for _, c := range all.Changes {
			set(c)
		}
		if first && all.Whole {
			if v.whole++; v.whole == tables {
				close(v.synced)
			}
			first = false
		}
		close(v.changed)
		v.changed = make(chan struct{})
		v.mu.Unlock()
		v.poke()
	}
}

// poke wakes the leader.
func (v *view) poke() {
	select {
	case v.poked <- struct{}{}:
	default:
	}
}

func (v *view) setModel(c store.Change[schema.Model]) {
	name := namesOf(c.ID, 1)[0]
	if v.dirty != nil {
		v.dirty[name] = true
	}
	v.revs[name] = max(v.revs[name], uint64(c.Revision))
	if c.Gone {
		delete(v.models, name)
		v.forget(name)
		return
	}
	v.models[name] = store.Entry[schema.Model]{ID: c.ID, Value: c.Value, Revision: c.Revision}
}

func (v *view) setObserved(c store.Change[schema.Observation]) {
	id := namesOf(c.ID, 2)
	name, version := id[0], id[1]
	v.revs[name] = max(v.revs[name], uint64(c.Revision))
	of := v.observed[name]
	switch {
	case !c.Gone && of == nil:
		v.observed[name] = map[string]schema.Observation{version: c.Value}
	case !c.Gone:
		of[version] = c.Value
	default:
		delete(of, version)
		if len(of) == 0 {
			delete(v.observed, name)
		}
	}
	v.forget(name)
}

// forget gives up the revision of a model of which nothing is left. mu is held.
func (v *view) forget(name string) {
	if v.models[name].ID == "" && len(v.observed[name]) == 0 {
		delete(v.revs, name)
	}
}

func (v *view) setLoad(c store.Change[schema.Load]) {
	id := namesOf(c.ID, 2)
	key := id[0] + "/" + id[1]
	if c.Gone {
		delete(v.loads, key)
		return
	}
	v.loads[key] = c.Value
}

func (v *view) setMeasured(c store.Change[schema.Measured]) {
	version := c.ID[:strings.LastIndexByte(c.ID, '/')]
	of := v.measured[version]
	switch {
	case !c.Gone && of == nil:
		v.measured[version] = map[string]schema.Measured{c.ID: c.Value}
	case !c.Gone:
		of[c.ID] = c.Value
	default:
		if delete(of, c.ID); len(of) == 0 {
			delete(v.measured, version)
		}
	}
}

// measuredOf are the ids of what was measured of a version.
func (v *view) measuredOf(name, version string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.measured[schema.ID(name, version)]))
}

// measuresOf is all that was measured of a model's versions.
func (v *view) measuresOf(doc *schema.Model) (out []schema.Measured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range doc.Versions {
		of := v.measured[schema.ID(doc.Name, doc.Versions[i].Version)]
		for _, id := range slices.Sorted(maps.Keys(of)) {
			if m := of[id]; ofItsFiles(&m, doc) {
				out = append(out, m)
			}
		}
	}
	return out
}

// ofItsFiles reports whether something was measured with the files that a version has: people have
// not said since that they are other ones. Of what is not in the catalogue that is taken for so.
func ofItsFiles(m *schema.Measured, doc *schema.Model) bool {
	i := doc.Find(m.Version)
	return i < 0 || m.At >= doc.Versions[i].Files() || m.Digest != "" && m.Digest == doc.Versions[i].Digest
}

func (v *view) setHead(c store.Change[schema.Plan]) {
	if c.Gone {
		maps.DeleteFunc(v.heads, func(epoch uint64, h schema.Plan) bool { return h.ID() == c.ID })
		return
	}
	v.heads[c.Value.Epoch] = c.Value
}

func (v *view) setControl(c store.Change[schema.Control]) {
	if c.ID != schema.ID(schema.Epochs) {
		return
	}
	v.epochs = schema.Control{}
	if !c.Gone {
		v.epochs = c.Value
	}
}

// namesOf takes an id apart, which the store has written and checked.
func namesOf(id string, n int) []string {
	names := make([]string, n)
	for i, part := range strings.SplitN(id, "/", n) {
		names[i], _ = schema.Unescape(part)
	}
	return names
}

// history is the plans, the newest first.
func (v *view) history() []schema.Plan {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.SortedFunc(maps.Values(v.heads), func(a, b schema.Plan) int { return cmp.Compare(b.Epoch, a.Epoch) })
}

// take is what the leader has to know of: wishes that have changed (a model without a name in
// its document is gone), and whether epochs go on.
func (v *view) take() (wishes map[string]schema.Model, epochs schema.Control) {
	v.mu.Lock()
	defer v.mu.Unlock()
	wishes = make(map[string]schema.Model, len(v.dirty))
	for name := range v.dirty {
		wishes[name] = v.models[name].Value
	}
	clear(v.dirty)
	return wishes, v.epochs
}

// lead begins to note what changes for a leader: all wishes are new to it.
func (v *view) lead() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty = make(map[string]bool, len(v.models))
	for name := range v.models {
		v.dirty[name] = true
	}
}

// rest ends that: nobody would take it.
func (v *view) rest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirty = nil
}

// states counts versions by what became of them.
func (v *view) states() map[schema.State]int {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := map[schema.State]int{}
	for _, versions := range v.observed {
		for _, o := range versions {
			n[o.State]++
		}
	}
	return n
}
