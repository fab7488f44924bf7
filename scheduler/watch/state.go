package watch

import (
	"maps"
	"slices"
	"strconv"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// State is the picture as the events so far have it.
type State struct {
	Now    mono.Time
	Models []*ModelState // by id; nil: not told of
	Pools  []*PoolState  // by number; nil likewise
	Links  []Info        // by name
	Texts  []Info        // by name
	Missed uint64        // events that could not be told
}

// PoolState is a sub-cluster.
type PoolState struct {
	Info
	Began mono.Time  // when it was told of first
	Rows  []GPUState // by GPU
}

// GPUState is a row of the picture.
type GPUState struct {
	Present bool
	Name    string
	Model   wire.ModelID // of the batch that it had last
	Size    int32
	Batch   wire.BatchID
	From    mono.Time
	Until   mono.Time    // planned, or real once it is known
	Memory  *MemoryState // nil: not told
	busy    [busySlots]mono.Dur
	slot    int64
}

// ModelState is a model.
type ModelState struct {
	Info
	ID      wire.ModelID
	Pool    int32
	Profile *profile.Profile // nil: not told
	Queue   Event            // the last of its candidates
	Rate    Rates            // between the last two Counts
	counts  Info
	counted mono.Time
	recent  [recentMost]served
	seen    int
}

// Rates are per second, over the span between two counts.
type Rates struct {
	Came, Served, Late, Dropped float64
	Warm, Cold, Loads           float64      // of a paged pool's
	Reasons                     []ReasonRate // of Dropped, in the order of wire.Reason
}

// ReasonRate is one reason's share of Dropped.
type ReasonRate struct {
	Reason string
	Rate   float64
}

// served is one request's latency up to the end of its batch, and the batch's size.
type served struct {
	latency mono.Dur
	size    int32
}

const (
	recentMost = 512
	busySlots  = 8 // each busySlot long
	busySlot   = mono.Second / 4
)

// Apply takes an event into the picture.
func (s *State) Apply(e *Event) {
	s.Now = max(s.Now, e.At)
	switch e.Kind {
	case Batch:
		if g := s.gpu(e); g != nil {
			g.Model, g.Size, g.Batch, g.From, g.Until = e.Model, e.Size, e.Batch, e.Exec, e.Until
		}
		if m := s.Model(e.Model); m != nil {
			for i := range e.Requests {
				m.add(served{e.Until.Sub(e.Requests[i].Arrival), e.Size})
			}
		}
	case Done:
		if g := s.gpu(e); g != nil {
			g.ran(e.Exec, e.Until)
			if g.Batch == e.Batch {
				g.From, g.Until = e.Exec, e.Until
			}
		}
	case Queue:
		if m := s.Model(e.Model); m != nil {
			m.Queue = *e
		}
	case Missed:
		s.Missed += uint64(e.Size)
	case Model:
		s.model(e)
	case Pool:
		s.pool(e)
	case GPU:
		if g := s.gpu(e); g != nil {
			if g.Present, g.Name = !e.Info.Gone, e.Info.Name; e.Info.Gone {
				g.Memory = nil
			}
		}
	case Memory:
		if g := s.gpu(e); g != nil {
			g.remember(e)
		}
	case Counts:
		if m := s.Model(e.Model); m != nil {
			m.count(e)
		}
	case Link:
		s.Links = put(s.Links, e.Info)
	case Text:
		s.Texts = put(s.Texts, e.Info)
	}
}

// put replaces what has the name, or takes it out where it is gone.
func put(all []Info, i *Info) []Info {
	at := len(all) - 1
	for at >= 0 && all[at].Name != i.Name {
		at--
	}
	switch {
	case i.Gone && at >= 0:
		return slices.Delete(all, at, at+1)
	case i.Gone:
		return all
	case at >= 0:
		all[at] = *i
		return all
	}
	return append(all, *i)
}

// Model is a model that was told of, else nil.
func (s *State) Model(id wire.ModelID) *ModelState {
	if int(id) >= len(s.Models) {
		return nil
	}
	return s.Models[id]
}

// Pool is a pool that was told of, else nil.
func (s *State) Pool(i int32) *PoolState {
	if i < 0 || int(i) >= len(s.Pools) {
		return nil
	}
	return s.Pools[i]
}

// bound is the network's delay bound for a batch of so many of a model, as the scheduler reckons it (batching.Delay); 0
// where the pool is not told of.
func (s *State) bound(pool int32, model wire.ModelID, size int) mono.Dur {
	p := s.Pool(pool)
	if p == nil {
		return 0
	}
	data := p.Data
	if m := s.Model(model); m != nil {
		data += p.MiB * mono.Dur(m.Bytes) >> 20
	}
	return p.Ctrl + data*mono.Dur(size)
}

// Name is what people call a model.
func (s *State) Name(id wire.ModelID) string {
	if m := s.Model(id); m != nil && m.Name != "" {
		return m.Name
	}
	return "model " + strconv.FormatUint(uint64(id), 10)
}

// GPUName is what people call a GPU of a pool.
func (s *State) GPUName(pool int32, id wire.GPUID) string {
	name := "GPU " + strconv.FormatUint(uint64(id), 10)
	if p := s.Pool(pool); p != nil && len(s.Pools) > 1 && p.Name != "" {
		name += " of " + p.Name
	}
	return name
}

func (s *State) model(e *Event) {
	if e.Info.Gone {
		if int(e.Model) < len(s.Models) {
			s.Models[e.Model] = nil
		}
		return
	}
	for int(e.Model) >= len(s.Models) {
		s.Models = append(s.Models, nil)
	}
	if s.Models[e.Model] == nil {
		s.Models[e.Model] = &ModelState{ID: e.Model}
	}
	m := s.Models[e.Model]
	m.Info, m.Pool = *e.Info, e.Pool
	if e.Info.Profile != nil {
		if p, err := profile.FromDoc(*e.Info.Profile, e.Info.MaxBatch); err == nil {
			m.Profile = p
		}
	}
}

func (s *State) pool(e *Event) {
	if e.Info.Gone {
		if int(e.Pool) < len(s.Pools) {
			s.Pools[e.Pool] = nil
		}
		return
	}
	for int(e.Pool) >= len(s.Pools) {
		s.Pools = append(s.Pools, nil)
	}
	if s.Pools[e.Pool] == nil {
		s.Pools[e.Pool] = &PoolState{Began: e.At}
	}
	s.Pools[e.Pool].Info = *e.Info
}

// gpu is the row of an event's GPU; nil where its pool is not told of.
func (s *State) gpu(e *Event) *GPUState {
	p := s.Pool(e.Pool)
	if p == nil {
		return nil
	}
	for int(e.GPU) >= len(p.Rows) {
		p.Rows = append(p.Rows, GPUState{})
	}
	return &p.Rows[e.GPU]
}

// ran counts a batch's time in the slots of the last seconds. Of a long one, which a document may
// tell of, only the slots that are kept are gone through.
func (g *GPUState) ran(from, to mono.Time) {
	from = max(from, to.Add(-busySlots*busySlot))
	for slot := int64(from) / int64(busySlot); slot <= int64(to)/int64(busySlot); slot++ {
		for g.slot < slot {
			g.slot = max(g.slot+1, slot-busySlots+1)
			g.busy[g.slot%busySlots] = 0
		}
		if slot <= g.slot-busySlots || slot < 0 {
			continue
		}
		begin := mono.Time(slot * int64(busySlot))
		g.busy[slot%busySlots] += min(to, begin.Add(busySlot)).Sub(max(from, begin))
	}
}

// Busy is the share of the last seconds that the GPU ran batches, of what was told.
func (g *GPUState) Busy(now mono.Time) float64 {
	sum := mono.Dur(0)
	last := int64(now)/int64(busySlot) - 1 // the running slot is not over
	for slot := last; slot > last-busySlots+1 && slot >= 0; slot-- {
		if slot <= g.slot && slot > g.slot-busySlots {
			sum += g.busy[slot%busySlots]
		}
	}
	return min(1, float64(sum)/float64((busySlots-1)*busySlot))
}

func (m *ModelState) add(r served) {
	m.recent[m.seen%recentMost] = r
	m.seen++
}

func (m *ModelState) count(e *Event) {
	if passed := e.At.Sub(m.counted).Seconds(); m.counted > 0 && passed > 0 {
		per := func(now, before uint64) float64 { return max(0, float64(int64(now-before))) / passed }
		m.Rate = Rates{Came: per(e.Info.Came, m.counts.Came), Served: per(e.Info.Served, m.counts.Served), Late: per(e.Info.Late, m.counts.Late),
			Warm: per(e.Info.Warm, m.counts.Warm), Cold: per(e.Info.Cold, m.counts.Cold), Loads: per(e.Info.Loads, m.counts.Loads)}
		more := !maps.Equal(e.Info.Dropped, m.counts.Dropped)
		for r := wire.ReasonDeadline; int(r) < wire.ReasonCount && more; r++ {
			name := r.String()
			if rate := per(e.Info.Dropped[name], m.counts.Dropped[name]); rate > 0 {
				m.Rate.Dropped += rate
				m.Rate.Reasons = append(m.Rate.Reasons, ReasonRate{name, rate})
			}
		}
	}
	m.counts, m.counted = *e.Info, e.At
}

// Recent is the quantile q of the last requests' latencies up to the end of their batch, and
// their mean batch size; false where none ran.
func (m *ModelState) Recent(q float64) (latency mono.Dur, size float64, ok bool) {
	n := min(m.seen, recentMost)
	if n == 0 {
		return 0, 0, false
	}
	all, batches := make([]mono.Dur, n), 0.0
	for i := range n {
		all[i] = m.recent[i].latency
		batches += 1 / float64(max(1, m.recent[i].size))
	}
	slices.Sort(all)
	return all[min(n-1, int(q*float64(n)))], float64(n) / batches, true
}

// Bad is the share of what was answered that was dropped or late, lately.
func (r *Rates) Bad() float64 {
	if all := r.Served + r.Late + r.Dropped; all > 0 {
		return (r.Late + r.Dropped) / all
	}
	return 0
}
