package frontend

import (
	"cmp"
	"errors"
	"fmt"
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
	epoch   wire.Epoch
	serial  uint64
	models  map[wire.ModelID]*model
	pools   map[subCluster]*devices
	shares  map[string]*sharing // by name
	changed bool                // models or shares, since the last snapshot
	turned  bool                // a sub-cluster lost its last device, or got its first, likewise
}

// subCluster is where a model is served.
type subCluster struct{ deviceType, name string }

func newServed(epoch wire.Epoch) *served {
	return &served{epoch: epoch, models: map[wire.ModelID]*model{}, pools: map[subCluster]*devices{}, shares: map[string]*sharing{}, changed: true}
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
			old.metrics.end()
		} else {
			s.end(e.ID)
		}
		s.models[e.ID] = next
	}
	for _, n := range ch.Names {
		s.share(n)
	}
	s.changed = s.changed || len(ch.Gone)+len(ch.Models)+len(ch.Names) > 0
	return nil
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
}

// sharesMax is how many versions of a name can have shares; documents have no more.
const sharesMax = 256

// end takes a model's id from it: what was reserved for it goes out under that id no more.
func (s *served) end(id wire.ModelID) {
	if m := s.models[id]; m != nil {
		m.gone.Store(true)
		m.metrics.end()
		delete(s.models, id)
	}
}

// endAll ends a catalogue that another one follows: what its ids are there is yet to be told.
func (s *served) endAll() {
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
	m := &model{entry: catalog.Entry{ID: e.ID, DeviceType: e.DeviceType, Spec: e.Spec}, devices: s.pool(subCluster{e.DeviceType, e.SubCluster}), gone: new(atomic.Bool),
		inputs: itemSize(e.Spec.Inputs), outputs: itemSize(e.Spec.Outputs), metrics: all.of(e.Spec.Name, e.Spec.Version)}
	if e.Spec.Image != nil && len(e.Spec.Inputs) == 1 {
		m.plan, m.planError = preprocess.NewPlan(*e.Spec.Image, e.Spec.Inputs[0])
	}
	return m
}

// snapshot is the catalogue for requests. last is the one before, which is kept where
// nothing but counts of devices has changed.
func (s *served) snapshot(last *snapshot, before *earlier) *snapshot {
	var next *snapshot
	if !s.changed && last != nil {
		same := *last
		next, same.serial = &same, s.serial
	} else {
		next = s.whole(before)
		s.turned = true
	}
	if s.turned {
		for _, v := range next.shared {
			v.refresh()
		}
	}
	s.changed, s.turned = false, false
	return next
}

// whole makes a snapshot from nothing.
func (s *served) whole(before *earlier) *snapshot {
	next := &snapshot{epoch: s.epoch, serial: s.serial, models: map[string]*versions{}}
	if before != nil {
		next.before, next.since = before.names, before.since
	}
	for _, m := range s.models {
		next.all = append(next.all, m)
	}
	slices.SortFunc(next.all, func(a, b *model) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
	for _, m := range next.all {
		v := next.models[m.entry.Spec.Name]
		if v == nil {
			v = &versions{}
			next.models[m.entry.Spec.Name] = v
		}
		v.all = append(v.all, m)
	}
	for name, v := range next.models {
		slices.SortFunc(v.all, func(a, b *model) int { return compareVersions(b.entry.Spec.Version, a.entry.Spec.Version) })
		if v.sharing = s.shares[name]; v.sharing == nil {
			continue
		}
		for _, share := range v.sharing.shares {
			v.shared = append(v.shared, v.find(share.Version))
		}
		next.shared = append(next.shared, v)
	}
	return next
}
