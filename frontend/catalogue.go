package frontend

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// served is the scheduler's catalogue as far as its changes have come. Owned by the link's
// receiving goroutine; requests see the snapshots that it makes.
type served struct {
	epoch   wire.Epoch
	serial  uint64
	models  map[wire.ModelID]*model
	pools   map[string]*devices
	changed bool // models, since the last snapshot
}

func newServed(epoch wire.Epoch) *served {
	return &served{epoch: epoch, models: map[wire.ModelID]*model{}, pools: map[string]*devices{}, changed: true}
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
		s.pool(p.DeviceType).gpus.Store(int64(p.GPUs))
	}
	for _, id := range ch.Gone {
		s.end(id)
	}
	for i := range ch.Models {
		e := &ch.Models[i]
		next, old := s.model(e, m), s.models[e.ID]
		if old != nil && old.same(next) {
			next.gone = old.gone
		} else {
			s.end(e.ID)
		}
		s.models[e.ID] = next
	}
	s.changed = s.changed || len(ch.Gone)+len(ch.Models) > 0
	return nil
}

// end takes a model's id from it: what was reserved for it goes out under that id no more.
func (s *served) end(id wire.ModelID) {
	if m := s.models[id]; m != nil {
		m.gone.Store(true)
		delete(s.models, id)
	}
}

// endAll ends a catalogue that another one follows: what its ids are there is yet to be told.
func (s *served) endAll() {
	for id := range s.models {
		s.end(id)
	}
}

func (s *served) pool(deviceType string) *devices {
	d := s.pools[deviceType]
	if d == nil {
		d = &devices{}
		s.pools[deviceType] = d
	}
	return d
}

func (s *served) model(e *catalog.Served, all *metrics) *model {
	m := &model{entry: catalog.Entry{ID: e.ID, DeviceType: e.DeviceType, Spec: e.Spec}, devices: s.pool(e.DeviceType), gone: new(atomic.Bool),
		inputs: itemSize(e.Spec.Inputs), outputs: itemSize(e.Spec.Outputs), metrics: all.of(e.Spec.Name)}
	if e.Spec.Image != nil && len(e.Spec.Inputs) == 1 {
		m.plan, m.planError = preprocess.NewPlan(*e.Spec.Image, e.Spec.Inputs[0])
	}
	return m
}

// snapshot is the catalogue for requests. last is the one before, which is kept where
// nothing but counts of devices has changed.
func (s *served) snapshot(last *snapshot, before *earlier) *snapshot {
	if !s.changed && last != nil {
		next := *last
		next.serial = s.serial
		return &next
	}
	s.changed = false
	next := &snapshot{epoch: s.epoch, serial: s.serial, models: map[string][]*model{}}
	if before != nil {
		next.before, next.since = before.names, before.since
	}
	for _, m := range s.models {
		next.all = append(next.all, m)
	}
	slices.SortFunc(next.all, func(a, b *model) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
	for _, m := range next.all {
		name := m.entry.Spec.Name
		next.models[name] = append(next.models[name], m)
	}
	for _, versions := range next.models {
		if len(versions) > 1 {
			slices.SortFunc(versions, func(a, b *model) int { return compareVersions(b.entry.Spec.Version, a.entry.Spec.Version) })
		}
	}
	return next
}
