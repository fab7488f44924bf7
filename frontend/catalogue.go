package frontend

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// served is the scheduler's catalogue as far as its changes have come. Owned by the link's
// receiving goroutine; requests see the snapshots that it makes.
type served struct {
	uplink  *uplink
	epoch   wire.Epoch
	book    *book
	serial  uint64
	models  map[wire.ModelID]*model
	pools   map[subCluster]*devices
	names   map[string][]*model          // the same models
	shares  map[string]*sharing          // by name
	shared  map[string]*versions         // of the last snapshot: those with shares
	touched map[string]bool              // names, since the last snapshot
	pending map[string][]catalog.Pending // by name: models that are not served; replaced when it changes
	turned  bool                         // a sub-cluster lost its last device, or got its first, likewise
}

// subCluster is where a model is served.
type subCluster struct{ deviceType, name string }

func newServed(u *uplink, epoch wire.Epoch) *served {
	b := &book{epoch}
	u.book.Store(b)
	return &served{uplink: u, epoch: epoch, book: b, models: map[wire.ModelID]*model{}, pools: map[subCluster]*devices{}, names: map[string][]*model{},
		shares: map[string]*sharing{}, shared: map[string]*versions{}, touched: map[string]bool{}}
}

// errChanges are changes of another catalogue than the one that is known.
var errChanges = errors.New("changes of the catalogue that do not follow what came before")

// change applies what became of the catalogue.
func (s *served) change(ch *catalog.Changes, m *metrics) error {
	if ch.Epoch != s.epoch || ch.Since != s.serial || ch.Serial < ch.Since {
		return fmt.Errorf("%w: %d to %d of epoch %d after %d of %d", errChanges, ch.Since, ch.Serial, ch.Epoch, s.serial, s.epoch)
	}
	s.serial = ch.Serial
	for _, p := range ch.Pools {
		before := s.pool(subCluster{p.DeviceType, p.SubCluster}).gpus.Swap(int64(p.GPUs))
		s.turned = s.turned || (before > 0) != (p.GPUs > 0)
	}
	for _, id := range ch.Gone {
		s.end(id)
	}
	if len(ch.Gone) > 0 {
		m.sweep(mono.Now())
	}
	for i := range ch.Models {
		e := &ch.Models[i]
		next, old := s.model(e, m), s.models[e.ID]
		if old != nil && old.same(next) {
			next.gone = old.gone
			if next.devices == old.devices {
				next.came = old.came
			}
			s.unlink(old)
		} else {
			s.end(e.ID)
		}
		s.link(next)
	}
	for _, n := range ch.Names {
		s.share(n)
	}
	s.pend(ch.Pending)
	return nil
}

func (s *served) link(m *model) {
	name := m.entry.Spec.Name
	s.models[m.entry.ID] = m
	s.names[name] = append(s.names[name], m)
	s.touched[name] = true
}

func (s *served) unlink(m *model) {
	name := m.entry.Spec.Name
	m.metrics.end()
	delete(s.models, m.entry.ID)
	s.names[name] = slices.DeleteFunc(s.names[name], func(o *model) bool { return o == m })
	if len(s.names[name]) == 0 {
		delete(s.names, name)
	}
	s.touched[name] = true
}

// share takes what is said of a name. What was said before and is said again goes on.
func (s *served) share(n catalog.Name) {
	old := s.shares[n.Name]
	switch {
	case len(n.Shares) == 0 || len(n.Shares) > sharesMax:
		delete(s.shares, n.Name)
	case old == nil || !slices.Equal(old.shares, n.Shares):
		s.shares[n.Name] = &sharing{shares: n.Shares}
	}
	s.touched[n.Name] = true
}

// sharesMax is how many versions of a name can have shares; documents have no more.
const sharesMax = 256

// end takes a model's id from it: what was reserved for it goes out under that id no more.
func (s *served) end(id wire.ModelID) {
	if m := s.models[id]; m != nil {
		m.gone.Store(true)
		s.unlink(m)
	}
}

// endAll ends a catalogue that another one follows: what its ids are there is yet to be told. In a
// group it may answer on (group.held): that its ids are not used any more is said by the next book.
func (s *served) endAll() {
	if s.uplink.group.only == nil {
		for _, m := range s.models {
			m.metrics.end()
		}
		return
	}
	for id := range s.models {
		s.end(id)
	}
}

func (s *served) pool(of subCluster) *devices {
	d := s.pools[of]
	if d == nil {
		d = &devices{}
		s.pools[of] = d
	}
	return d
}

func (s *served) model(e *catalog.Served, all *metrics) *model {
	m := &model{uplink: s.uplink, book: s.book, came: s.uplink.client.came.Add(1), entry: catalog.Entry{ID: e.ID, DeviceType: e.DeviceType, Spec: e.Spec}, devices: s.pool(subCluster{e.DeviceType, e.SubCluster}), gone: new(atomic.Bool),
		inputs: itemSize(e.Spec.Inputs), outputs: itemSize(e.Spec.Outputs), metrics: all.of(e.Spec.Name, e.Spec.Version, e.Spec.SLO)}
	if e.Spec.Image != nil && len(e.Spec.Inputs) == 1 {
		m.plan, m.planError = preprocess.NewPlan(*e.Spec.Image, e.Spec.Inputs[0])
	}
	return m
}

// part leaves the last snapshot as it stands, and goes on with models of its own: the snapshot
// answers for a group, while its scheduler, which leads no more, gives up what it has.
func (s *served) part() {
	s.book = &book{s.epoch}
	s.uplink.book.Store(s.book)
	own := map[*devices]*devices{}
	for of, d := range s.pools {
		own[d] = &devices{}
		own[d].gpus.Store(d.gpus.Load())
		s.pools[of] = own[d]
	}
	for id, m := range s.models {
		next := *m
		next.book, next.devices, next.gone = s.book, own[m.devices], new(atomic.Bool)
		s.models[id] = &next
	}
	clear(s.names)
	clear(s.shared)
	for _, m := range s.models {
		name := m.entry.Spec.Name
		s.names[name] = append(s.names[name], m)
		s.touched[name] = true
	}
}

// snapshot is the catalogue for requests. What was not touched it has from last, the one
// before: a change costs what it changes, however many models there are.
func (s *served) snapshot(last *snapshot, before *earlier) *snapshot {
	next := &snapshot{epoch: s.epoch, serial: s.serial, book: s.book, pending: s.pending, order: new(order)}
	if last == nil {
		next.shards, next.seed = new([shards]map[string]*versions), maphash.MakeSeed()
		if before != nil {
			next.before, next.since = before.names, before.since
		}
	} else {
		next.shards, next.seed, next.before, next.since = last.shards, last.seed, last.before, last.since
		if len(s.touched) == 0 {
			next.order = last.order
		}
	}
	s.touch(next)
	if s.turned {
		for _, v := range s.shared {
			v.refresh()
		}
	}
	s.turned = false
	return next
}

// touch replaces the names that were touched.
func (s *served) touch(next *snapshot) {
	if len(s.touched) == 0 {
		return
	}
	all, own := *next.shards, [shards]bool{}
	for name := range s.touched {
		i := next.shard(name)
		if !own[i] {
			own[i], all[i] = true, maps.Clone(all[i])
		}
		v := s.versions(name)
		if v == nil || v.sharing == nil {
			delete(s.shared, name)
		} else {
			s.shared[name] = v
			v.refresh()
		}
		switch {
		case v == nil:
			delete(all[i], name)
		case all[i] == nil:
			all[i] = map[string]*versions{name: v}
		default:
			all[i][name] = v
		}
	}
	next.shards = &all
	clear(s.touched)
}

// versions are a name's as they are now; nil: there are none.
func (s *served) versions(name string) *versions {
	if len(s.names[name]) == 0 {
		return nil
	}
	v := &versions{all: slices.Clone(s.names[name]), sharing: s.shares[name]}
	slices.SortFunc(v.all, func(a, b *model) int {
		return cmp.Or(compareVersions(b.entry.Spec.Version, a.entry.Spec.Version), cmp.Compare(a.entry.ID, b.entry.ID))
	})
	if v.sharing != nil {
		for _, share := range v.sharing.shares {
			v.shared = append(v.shared, v.find(share.Version))
		}
	}
	return v
}
