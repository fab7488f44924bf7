package frontend

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/frontend/preprocess"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// model is a catalogue entry made ready for requests.
type model struct {
	entry     catalog.Entry
	epoch     wire.Epoch       // in which entry.ID holds
	plan      *preprocess.Plan // nil: takes no images
	planError error
	inputs    int // bytes of an item's input; -1 where it varies
	outputs   int // bytes of an item's output; -1 where it varies
	metrics   *modelMetrics
}

// snapshot is one catalogue, immutable.
type snapshot struct {
	doc    catalog.Catalogue
	models map[string][]*model // by name, the highest version first
	before map[string]bool     // names that the scheduler before had
	since  mono.Time           // when this scheduler admitted us
}

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
	all := make(map[string]bool, len(s.before)+len(s.models))
	for name := range s.before {
		if now.Sub(s.since) < returnMax {
			all[name] = true
		}
	}
	for name := range s.models {
		all[name] = true
	}
	return all
}

func (c *Client) newSnapshot(doc catalog.Catalogue) *snapshot {
	s := &snapshot{doc: doc, models: map[string][]*model{}}
	if before := c.before.Load(); before != nil {
		s.before, s.since = before.names, before.since
	}
	for _, e := range doc.Entries {
		m := &model{entry: e, epoch: doc.Epoch, inputs: itemSize(e.Spec.Inputs), outputs: itemSize(e.Spec.Outputs), metrics: c.metrics.of(e.Spec.Name)}
		if e.Spec.Image != nil && len(e.Spec.Inputs) == 1 {
			m.plan, m.planError = preprocess.NewPlan(*e.Spec.Image, e.Spec.Inputs[0])
		}
		s.models[e.Spec.Name] = append(s.models[e.Spec.Name], m)
	}
	for _, versions := range s.models {
		slices.SortFunc(versions, func(a, b *model) int { return compareVersions(b.entry.Spec.Version, a.entry.Spec.Version) })
	}
	return s
}

// compareVersions orders "2" before "10"; what is no number is below every
// number, so that the order has no circles ("10" < "1a" < "2").
func compareVersions(a, b string) int {
	x, errX := strconv.Atoi(a)
	y, errY := strconv.Atoi(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Compare(x, y)
	case errX == nil:
		return 1
	case errY == nil:
		return -1
	}
	return strings.Compare(a, b)
}

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

func (s *snapshot) find(name, version string) (*model, *Error) {
	versions := s.models[name]
	if len(versions) == 0 && s.before[name] && mono.Now().Sub(s.since) < returnMax {
		return nil, &Error{Kind: ErrUnavailable, Reason: wire.ReasonUnavailable, Model: name, Msg: "the scheduler was started anew, and no backend has brought it yet"}
	}
	if len(versions) == 0 {
		return nil, &Error{Kind: ErrUnknownModel, Model: name, Msg: "not in the catalogue"}
	}
	if version == "" {
		return versions[0], nil
	}
	for _, m := range versions {
		if m.entry.Spec.Version == version {
			return m, nil
		}
	}
	return nil, &Error{Kind: ErrUnknownModel, Model: name, Msg: "no version " + version}
}
