package lead

import (
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Census is what a scheduler has of a device type: for whoever decides how much of it there is to be.
type Census struct {
	DeviceType string
	Parts      []PartCensus    // sub-clusters, by name
	Backends   []BackendCensus // by name
}

// PartCensus is a sub-cluster.
type PartCensus struct {
	Name          string
	GPUs          int // that serve
	Need, Busy    float64
	Answered, Bad int64 // requests since the Census before
}

// BackendCensus is a backend's GPUs of the type.
type BackendCensus struct {
	Name                 string
	There, Serving, Left int // in service; seated; with something to do
}

// answers are requests of a sub-cluster that were answered since the last census.
type answers struct{ answered, bad int64 }

// count notes what came of a model's requests since its facts before.
func (w *world) countAnswers(old, m *catalog.ModelFacts) {
	if m.Served < old.Served || m.Late < old.Late || m.Dropped < old.Dropped {
		old = &catalog.ModelFacts{} // it was routed anew
	}
	bad := int64(m.Late - old.Late + m.Dropped - old.Dropped)
	name := subCluster(m.DeviceType, m.In)
	a := w.answers[name]
	a.answered, a.bad = a.answered+int64(m.Served-old.Served)+bad, a.bad+bad
	w.answers[name] = a
}

// Census takes stock, by device type; none, while nothing is known. What was answered is counted anew
// from then on.
func (l *Lead) Census() (out []Census) {
	w := &l.world
	if !w.whole {
		return nil
	}
	of := func(deviceType string) *Census {
		i, found := slices.BinarySearchFunc(out, deviceType, func(c Census, t string) int { return strings.Compare(c.DeviceType, t) })
		if !found {
			out = slices.Insert(out, i, Census{DeviceType: deviceType})
		}
		return &out[i]
	}
	serving := map[string]int{} // GPUs, by sub-cluster
	for _, name := range names(w.gpus) {
		f := &w.gpus[name].facts
		c := of(f.DeviceType)
		backend, _, _ := strings.Cut(name, "/")
		if n := len(c.Backends); n == 0 || c.Backends[n-1].Name != backend {
			c.Backends = append(c.Backends, BackendCensus{Name: backend})
		}
		b := &c.Backends[len(c.Backends)-1]
		switch f.State {
		case catalog.GPUServing:
			b.There, b.Serving, b.Left = b.There+1, b.Serving+1, b.Left+1
			serving[subCluster(f.DeviceType, f.In)]++
		case catalog.GPUDraining:
			b.There, b.Left = b.There+1, b.Left+1
		case catalog.GPUFree:
			b.There++
		}
	}
	for _, name := range names(w.subs) {
		s, a := w.subs[name], w.answers[name]
		c := of(s.DeviceType)
		c.Parts = append(c.Parts, PartCensus{Name: name, GPUs: serving[name], Need: s.Need, Busy: s.Busy, Answered: a.answered, Bad: a.bad})
	}
	clear(w.answers)
	return out
}

// Leave has all GPUs of these backends drain, and be planned with no more; those of other backends
// that were to are planned with again. Backends that are not there are remembered.
func (l *Lead) Leave(now mono.Time, backends []string) {
	before, changed := l.world.leaving, false
	l.world.leaving = map[string]bool{}
	for _, b := range backends {
		l.world.leaving[b] = true
	}
	for _, name := range names(l.world.gpus) {
		backend, _, _ := strings.Cut(name, "/")
		if before[backend] != l.world.leaving[backend] {
			l.world.changed[name], changed = true, true
		}
	}
	if !changed {
		return
	}
	l.world.sorted, l.world.sizes = nil, nil
	l.want(now, causeGPUs)
	l.tell()
}

// leaves reports whether a GPU is to go.
func (w *world) leaves(gpu string) bool {
	backend, _, _ := strings.Cut(gpu, "/")
	return w.leaving[backend]
}
