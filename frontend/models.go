package frontend

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// model is a catalogue entry made ready for requests.
type model struct {
	uplink    *uplink          // whose it is
	book      *book            // whose entry.ID is
	came      uint64           // which it was of all models that came: see beats
	entry     catalog.Entry    // but for what changes with its devices: see state
	devices   *devices         // of its sub-cluster
	gone      *atomic.Bool     // entry.ID is not its any more; shared with what it was and becomes under that id
	plan      *preprocess.Plan // nil: takes no images
	planError error
	inputs    int // bytes of an item's input; -1 where it varies
	outputs   int // bytes of an item's output; -1 where it varies
	metrics   *modelMetrics
}

// devices are how many a sub-cluster has now.
type devices struct{ gpus atomic.Int64 }

// ready reports whether a device serves the model now. One whose id was taken from it is not,
// also while snapshots have it still.
func (m *model) ready() bool { return m.devices.gpus.Load() > 0 && !m.gone.Load() }

// serving reports whether requests for the model can be sent now.
func (m *model) serving() bool { return m.ready() && m.uplink.group.up() }

// same reports whether requests made for m are what next takes: an id may be given to another
// model, and a name to other tensors.
func (m *model) same(next *model) bool {
	a, b := &m.entry.Spec, &next.entry.Spec
	return a.Name == b.Name && a.Version == b.Version && a.SameTensors(b)
}

// state is the model's entry as it is now.
func (m *model) state() catalog.Entry {
	e := m.entry
	e.GPUs = int(m.devices.gpus.Load())
	e.Ready = m.serving()
	return e
}

// shards are the parts of a snapshot that a change replaces one by one.
const shards = 256

// snapshot is one catalogue, immutable but for the devices' counts and the turns of versions.
type snapshot struct {
	epoch   wire.Epoch
	serial  uint64
	book    *book
	shards  *[shards]map[string]*versions // by name
	seed    maphash.Seed
	order   *order
	pending map[string][]catalog.Pending // by name: models that are not served
	before  map[string]bool              // names that the scheduler before had
	since   mono.Time                    // when this scheduler admitted us
}

// order is a catalogue's models by id, sorted for who asks first.
type order struct {
	once sync.Once
	all  []*model
}

func (s *snapshot) shard(name string) uint64 { return maphash.String(s.seed, name) % shards }

// of are a name's versions; nil: there are none.
func (s *snapshot) of(name string) *versions { return s.shards[s.shard(name)][name] }

func (s *snapshot) sorted() []*model {
	s.order.once.Do(func() {
		for _, shard := range s.shards {
			for _, v := range shard {
				s.order.all = append(s.order.all, v.all...)
			}
		}
		slices.SortFunc(s.order.all, func(a, b *model) int { return cmp.Compare(a.entry.ID, b.entry.ID) })
	})
	return s.order.all
}

// doc is the catalogue for applications.
func (s *snapshot) doc() catalog.Catalogue {
	all := s.sorted()
	c := catalog.Catalogue{Epoch: s.epoch, Serial: s.serial, Entries: make([]catalog.Entry, 0, len(all))}
	for _, m := range all {
		c.Entries = append(c.Entries, m.state())
	}
	return c
}

// serves reports whether any model is ready.
func (s *snapshot) serves() bool { return slices.ContainsFunc(s.sorted(), (*model).ready) }

// earlier is the models' names that the scheduler before had, and when it was followed.
type earlier struct {
	names map[string]bool
	since mono.Time
}

// returnMax is how long a model that the scheduler before had may take to come back
// before it counts as unknown.
const returnMax = 60 * mono.Second

// names are the models of this catalogue, and those that may still come back. A
// scheduler that was started again knows a model only once its backend is back: until
// then the model is away, not unknown, and a client should try again.
func (s *snapshot) names(now mono.Time) map[string]bool {
	all := make(map[string]bool, len(s.before))
	for name := range s.before {
		if now.Sub(s.since) < returnMax {
			all[name] = true
		}
	}
	for _, shard := range s.shards {
		for name := range shard {
			all[name] = true
		}
	}
	return all
}

// compareVersions is catalog.CompareVersions.
func compareVersions(a, b string) int { return catalog.CompareVersions(a, b) }

// itemSize is the bytes of one item's tensors one after the other; -1 where
// one varies.
func itemSize(specs []catalog.TensorSpec) int {
	total := int64(0)
	for _, s := range specs {
		n := s.ByteSize()
		if n < 0 {
			return -1
		}
		total += n
	}
	return int(total)
}
