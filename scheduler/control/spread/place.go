package spread

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// place finds homes for models that have none.
func (s *Spread) place(now mono.Time, w World, out *Effects) {
	if !s.waited && (now >= s.begun.Add(s.cfg.Wait) || s.complete(w)) {
		s.waited, s.stirred = true, true
	}
	if len(s.homeless) == 0 || !s.stirred || !s.waited {
		return
	}
	s.stirred = false
	s.survey(w)
	s.weigh(now, w)
	for _, name := range names(s.homeless) {
		m := s.models[name]
		if i, _ := s.choose(m, sized(m), w, func(int) bool { return false }); i != Nowhere {
			s.settle(m, i, out)
			s.loads.count[i]++
			s.loads.bytes[i] += sized(m)
			continue
		}
		if why := s.waitsFor(m, w); why != m.waits {
			m.waits = why
			out.Waits = append(out.Waits, Wait{name, why})
		}
	}
}

// survey asks what GPUs there are.
func (s *Spread) survey(w World) {
	s.gpus = make([][]GPUs, len(s.schedulers))
	for i := range s.gpus {
		if w.Told(i) {
			s.gpus[i] = w.GPUs(i)
		}
	}
}

// complete reports whether all schedulers have told what they have, and have something.
func (s *Spread) complete(w World) bool {
	for i := range s.schedulers {
		if !w.Told(i) || len(w.GPUs(i)) == 0 {
			return false
		}
	}
	return true
}

// waitsFor is what a model waits for that no scheduler can serve.
func (s *Spread) waitsFor(m *model, w World) string {
	var types []string
	told := false
	for i := range s.schedulers {
		told = told || w.Told(i)
		for _, g := range s.gpus[i] {
			if !slices.Contains(types, g.DeviceType) {
				types = append(types, g.DeviceType)
			}
		}
	}
	slices.Sort(types)
	switch {
	case !told:
		return "for a scheduler"
	case len(types) == 0:
		return "for a GPU"
	}
	var may []string
	for _, v := range m.versions {
		may = append(may, v.DeviceTypes...)
	}
	slices.Sort(may)
	return fmt.Sprintf("for a GPU of the types %v; there are %v", slices.Compact(may), types)
}

// runs is how many of a model's versions a scheduler has GPUs for, and how many GPUs, of all
// types that the model may be on.
func (s *Spread) runs(i int, m *model) (versions, gpus int) {
	all := s.gpus[i]
	for _, g := range all {
		if m.mayBeOn(g.DeviceType) {
			gpus += g.Count
		}
	}
	for _, v := range m.versions {
		if slices.ContainsFunc(all, func(g GPUs) bool { return g.Count > 0 && v.mayBeOn(g.DeviceType) }) {
			versions++
		}
	}
	return versions, gpus
}

// holds is how many of a model's versions a scheduler has a GPU for that is large enough for it
// alone, as far as is known.
func (s *Spread) holds(i int, m *model, w World) (n int) {
	for k := range m.versions {
		v := &m.versions[k]
		if slices.ContainsFunc(s.gpus[i], func(g GPUs) bool {
			return g.Count > 0 && v.mayBeOn(g.DeviceType) && (g.Largest == 0 || s.size(i, m, v, g.DeviceType, w) <= g.Largest)
		}) {
			n++
		}
	}
	return n
}

// size is what a version takes of a GPU of a scheduler, or where it is, or what its files do.
func (s *Spread) size(i int, m *model, v *Version, deviceType string, w World) int64 {
	n := w.Size(i, v.Key, deviceType)
	if n == 0 && m.at != Nowhere {
		n = w.Load(m.at, v.Key).Bytes
	}
	return cmp.Or(n, v.Bytes)
}

func (v *Version) mayBeOn(deviceType string) bool {
	return len(v.DeviceTypes) == 0 || slices.Contains(v.DeviceTypes, deviceType)
}

// offer is a scheduler as a home of a model.
type offer struct {
	scheduler   int
	versions    int // that it could serve: GPUs of their types are large enough for each
	served      bool
	full        bool // its memory would not do
	need, bytes int  // per GPU and per byte of memory, in steps: a little more or less is no reason
	models      float64
}

// choose is the scheduler that a model of so many bytes should go to, of those that have told, but for
// those to be left out; Nowhere. fits: it has the memory, and GPUs that are large enough. Where none
// has, the Lead of the best one says what lacks.
func (s *Spread) choose(m *model, bytes int64, w World, leave func(i int) bool) (to int, fits bool) {
	best := offer{scheduler: Nowhere}
	for i := range s.schedulers {
		if leave(i) || !w.Told(i) {
			continue
		}
		_, gpus := s.runs(i, m)
		if gpus == 0 {
			continue
		}
		o := offer{scheduler: i, versions: s.holds(i, m, w), served: s.serves(i, m, w), full: !s.fits(i, bytes, m), models: float64(s.loads.count[i]) / float64(gpus)}
		need := 0.0
		for _, g := range s.gpus[i] {
			if m.mayBeOn(g.DeviceType) {
				need += s.loads.need[i][g.DeviceType]
			}
		}
		o.need = int(need / float64(gpus) / coarse)
		if memory := s.memory(i, m); memory > 0 {
			o.bytes = int(float64(s.loads.bytes[i]) / float64(memory) / coarse)
		}
		if best.scheduler == Nowhere || s.better(&o, &best) {
			best = o
		}
	}
	return best.scheduler, best.scheduler != Nowhere && best.versions > 0 && !best.full
}

// memory is that of all GPUs that a model may be on at a scheduler; 0: not known. A model takes
// that of one of them at least: see holds.
func (s *Spread) memory(i int, m *model) (sum int64) {
	for _, g := range s.gpus[i] {
		if !m.mayBeOn(g.DeviceType) {
			continue
		}
		if g.Memory == 0 {
			return 0
		}
		sum += g.Memory * int64(g.Count)
	}
	return sum
}

// fits reports whether a scheduler may have memory for so many bytes more, on all of its GPUs.
func (s *Spread) fits(i int, bytes int64, m *model) bool {
	memory := s.memory(i, m)
	return memory == 0 || s.loads.bytes[i]+bytes <= memory
}

// mayBeOn reports whether any version may be served on a type.
func (m *model) mayBeOn(deviceType string) bool {
	return len(m.versions) == 0 || slices.ContainsFunc(m.versions, func(v Version) bool { return v.mayBeOn(deviceType) })
}

// coarse is the step in which needs per GPU and shares of memory are compared.
const coarse = 0.05

func (s *Spread) better(a, b *offer) bool {
	last := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(b.versions, a.versions), cmp.Compare(last(!a.served), last(!b.served)), cmp.Compare(last(a.full), last(b.full)), cmp.Compare(a.need, b.need), cmp.Compare(a.bytes, b.bytes),
		cmp.Compare(a.models, b.models), strings.Compare(s.schedulers[a.scheduler], s.schedulers[b.scheduler])) < 0
}

// loads are sums over the models of each scheduler, those that move there too and not those that
// leave.
type loads struct {
	at    mono.Time // when they were made; Never: not yet
	need  []map[string]float64
	bytes []int64 // on each GPU, if all were on all
	count []int
	all   int64 // bytes of all models
}

func newLoads(n int) loads {
	l := loads{at: mono.Never, bytes: make([]int64, n), count: make([]int, n)}
	for range n {
		l.need = append(l.need, map[string]float64{})
	}
	return l
}

// weighEvery is how old sums may be.
const weighEvery = mono.Second

// weigh makes the sums anew, unless they are new.
func (s *Spread) weigh(now mono.Time, w World) {
	if l := &s.loads; l.at != mono.Never && now < l.at.Add(weighEvery) {
		return
	}
	s.loads = newLoads(len(s.schedulers))
	s.loads.at = now
	for _, name := range names(s.models) {
		m := s.models[name]
		if m.at == Nowhere {
			continue
		}
		x := s.load(m, w)
		i := m.at
		if m.to != Nowhere {
			i = m.to
		}
		s.loads.count[i]++
		s.loads.bytes[i] += x.bytes
		s.loads.all += max(1, x.bytes)
		for k, t := range x.types {
			s.loads.need[i][t] += x.needs[k]
		}
	}
}

// burden is what a model takes where it is.
type burden struct {
	types []string // of its versions, one by one
	needs []float64
	bytes int64
}

// need is that of all versions.
func (b *burden) need() (sum float64) {
	for _, n := range b.needs {
		sum += n
	}
	return sum
}

// load is what a model takes: of the two that it moves between, the one that knows more of it.
func (s *Spread) load(m *model, w World) (b burden) {
	for i := range m.versions {
		v := &m.versions[i]
		x := w.Load(m.at, v.Key)
		if m.to != Nowhere {
			if y := w.Load(m.to, v.Key); y.Need > x.Need || x.DeviceType == "" {
				x.DeviceType, x.Need = y.DeviceType, y.Need
			}
		}
		if x.DeviceType != "" {
			b.types, b.needs = append(b.types, x.DeviceType), append(b.needs, x.Need)
		}
		if x.Bytes == 0 {
			x.Bytes = v.Bytes
		}
		b.bytes += x.Bytes
	}
	return b
}

// sized is what is known of a model's bytes before anybody has it.
func sized(m *model) (n int64) {
	for i := range m.versions {
		n += m.versions[i].Bytes
	}
	return n
}
