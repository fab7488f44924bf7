package server

import (
	"cmp"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	// surroundingsEvery is how often models, pools, GPUs and counts are looked at while somebody watches.
	surroundingsEvery = 250 * mono.Millisecond
	// linksEvery is how often links are, of which linksMost are told.
	linksEvery = mono.Second
	linksMost  = 64
	// tapBytes is for the rings of a scheduler's model loops, all together, before each is rounded up to a power of two. A loop
	// has an eighth at most: 32 words for each of watchedMost events. Of batches with more than five requests it holds
	// fewer: one of seven, the largest that counts as one event, has 37 words.
	tapBytes = 16 << 20
	// watchedMost is about how many events of a loop are told at a call of Watched.
	watchedMost = 1 << 13
)

// watching is what who watches has been told, so that only what changed is told again.
type watching struct {
	mu sync.Mutex // Guards what follows; one reader at a time.
	on bool

	looked, linked mono.Time
	paged          mono.Time   // when looks at pages were asked for last
	models         []toldModel // by wire.ModelID
	pools          []toldPool  // by the pool's index
	links          map[string]watch.Info
	now            []*pool // scratch
}

type toldModel struct {
	spec    *catalog.ModelSpec // nil: not told
	pool    int
	counted counted
	paged   pagedCounts
	count   *modelCount // which info was of
	info    *watch.Info // of the last event of its counts: the next one's memory
}

type toldPool struct {
	pool  *pool // nil: not told
	info  watch.Info
	gpus  []bool             // present, by wire.GPUID
	held  []watch.MemoryInfo // likewise: of a paged pool
	every int
}

// WatchHead is the first line of a document of what is watched.
func (s *Server) WatchHead() watch.Head {
	return watch.NewHead("live", s.cfg.Name, mono.Time(0).Std().UnixNano())
}

// Watching has the engines tell what they decide, for Watched, or ends that. It costs them
// nothing while it is off, and a few nanoseconds a batch and request while it is on.
func (s *Server) Watching(on bool) {
	w := &s.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on = on
	w.looked, w.linked, w.paged = 0, 0, 0 // long ago
	w.models, w.pools, w.links = nil, nil, map[string]watch.Info{}
	pools := s.watchedPools()
	for _, p := range pools {
		p.engine.Watch(0) // of what was not read nothing is told
		p.engine.ForgetPages()
		if on {
			p.engine.Watch(s.tapBytes(len(pools)))
		}
	}
}

// Watches reports whether somebody watches (Watching).
func (s *Server) Watches() bool {
	s.watching.mu.Lock()
	defer s.watching.mu.Unlock()
	return s.watching.on
}

// watchedPools are those that there are, by index.
func (s *Server) watchedPools() []*pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(s.livePools)
}

// Watched adds the events since the last call: what changed of the surroundings, and what the loops told, about in
// order. Nothing while Watching is off.
func (s *Server) Watched(to *watch.Told) {
	w := &s.watching
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.on {
		return
	}
	to.Events = w.look(s, mono.Now(), to.Events)
	for _, p := range w.now {
		p.engine.Watch(s.tapBytes(len(w.now)))
		from := len(to.Words)
		w.pools[p.index].every = p.engine.Watched(int32(p.index), watchedMost, to)
		if s.cfg.ModelLoops > 1 || p.paged != nil { // the rank loop tells, too
			to.Sort(from)
		}
	}
}

// tapBytes is the size of a loop's ring, of so many pools.
func (s *Server) tapBytes(pools int) int {
	return min(tapBytes/8, tapBytes/max(1, pools*s.cfg.ModelLoops))
}

// look tells of what changed. Pools are looked at each time: a batch must not come before its pool.
func (w *watching) look(s *Server, now mono.Time, to []watch.Event) []watch.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.now = slices.AppendSeq(w.now[:0], s.livePools)
	fresh := now.Sub(w.looked) >= surroundingsEvery || !w.knows()
	if !fresh {
		return to
	}
	w.looked = now
	asks := now.Sub(w.paged) >= watch.MemoryEvery*3/4 // the look after this one may come too late for rates over MemoryEvery
	if asks {
		w.paged = now
	}
	to = w.lookPools(now, asks, to)
	to = w.lookModels(s, now, to)
	if now.Sub(w.linked) >= linksEvery {
		w.linked = now
		to = w.lookLinks(s, now, to)
	}
	return to
}

func (w *watching) lookPools(now mono.Time, asks bool, to []watch.Event) []watch.Event {
	live := make([]bool, len(w.pools))
	for _, p := range w.now {
		for p.index >= len(w.pools) {
			w.pools, live = append(w.pools, toldPool{}), append(live, false)
		}
		live[p.index] = true
		t := &w.pools[p.index]
		if t.pool != p {
			*t = toldPool{pool: p, every: 1}
		}
		if info := p.watched(t.every); !samePool(&info, &t.info) {
			t.info = info
			to = append(to, watch.Event{Kind: watch.Pool, At: now, Pool: int32(p.index), Info: &info})
		}
		to = t.lookGPUs(now, to)
		if p.paged != nil {
			to = t.lookPages(asks, to)
		}
	}
	for i := range w.pools {
		if !live[i] && w.pools[i].pool != nil {
			w.pools[i] = toldPool{}
			to = append(to, watch.Event{Kind: watch.Pool, At: now, Pool: int32(i), Info: &watch.Info{Gone: true}})
		}
	}
	return to
}

// watched is what is told of a pool. Caller holds Server.mu.
func (p *pool) watched(every int) watch.Info {
	now := p.engine.Glance()
	info := watch.Info{Name: p.label(), GPUs: int(p.alive.Load()), Need: now.Need, Kept: min(now.Kept, int(p.alive.Load())), Ctrl: p.delay.Ctrl, Data: p.delay.Data, MiB: p.delay.MiB, Spent: 1, Every: every, Queued: now.Used}
	if p.paged != nil {
		info.Page = p.paged.Page
		if p.engine.Stats().Paging.Eager { // nothing is tuned there
			info.Spent = 0
		}
	}
	if c, _, ok := p.engine.Tuning(); ok {
		info.Setting, info.Spent = c.Setting.String(), 1-float64(c.Setting.Haste)/batching.HasteAll
	}
	return info
}

func samePool(a, b *watch.Info) bool {
	return a.Name == b.Name && a.GPUs == b.GPUs && a.Kept == b.Kept && a.Need == b.Need && a.Spent == b.Spent && a.Setting == b.Setting &&
		a.Ctrl == b.Ctrl && a.Data == b.Data && a.MiB == b.MiB && a.Queued == b.Queued && a.Every == b.Every && a.Page == b.Page
}

func (t *toldPool) lookGPUs(now mono.Time, to []watch.Event) []watch.Event {
	for i, g := range *t.pool.gpus.Load() {
		if i >= len(t.gpus) {
			t.gpus = append(t.gpus, false)
		}
		if here := g.seat.Load() != nil; here != t.gpus[i] {
			t.gpus[i] = here
			to = append(to, watch.Event{Kind: watch.GPU, At: now, Pool: int32(t.pool.index), GPU: g.id, Info: &watch.Info{Name: g.name, Gone: !here}})
		}
	}
	return to
}

// lookModels tells of models that came, changed or went, and of what was counted.
func (w *watching) lookModels(s *Server, now mono.Time, to []watch.Event) []watch.Event {
	for id := range s.models {
		if id >= len(w.models) {
			w.models = append(w.models, toldModel{})
		}
		m, t := &s.models[id], &w.models[id]
		if m.pool == nil {
			if t.spec != nil {
				*t = toldModel{}
				to = append(to, watch.Event{Kind: watch.Model, At: now, Model: wire.ModelID(id), Info: &watch.Info{Gone: true}})
			}
			continue
		}
		if t.spec != m.spec || t.pool != m.pool.index {
			t.spec, t.pool = m.spec, m.pool.index
			to = append(to, watch.Event{Kind: watch.Model, At: now, Pool: int32(m.pool.index), Model: wire.ModelID(id),
				Info: &watch.Info{Name: shownName(m.spec), SLO: m.spec.SLO, MaxBatch: m.spec.MaxBatch, Bytes: int64(m.spec.InputBytes()), Profile: &m.spec.Profile}})
		}
		if c, k := m.count.look(), m.pool.pagedCounts(wire.ModelID(id), m.count); c != t.counted || k != t.paged {
			t.info = m.count.watched(c, t)
			k.tell(t.info)
			t.counted, t.paged, t.count = c, k, m.count
			to = append(to, watch.Event{Kind: watch.Counts, At: now, Pool: int32(m.pool.index), Model: wire.ModelID(id), Info: t.info})
		}
	}
	return to
}

// shownName is the model's name, with its version where that is not the first.
func shownName(m *catalog.ModelSpec) string {
	if m.Version == "1" {
		return m.Name
	}
	return m.Key()
}

// watched is what is told of counts, in the memory of what was told of them before, which nobody has any more
// (watch.Told). The map is another one where it changed: who takes an event in keeps it.
func (c *modelCount) watched(n counted, before *toldModel) *watch.Info {
	i := before.info
	if i == nil {
		i = &watch.Info{}
	}
	i.Came, i.Served, i.Late = n.came, n.served, n.late
	if n.dropped == before.counted.dropped && before.count == c || n.dropped == 0 && i.Dropped == nil {
		return i
	}
	i.Dropped = map[string]uint64{}
	for r := range c.dropped {
		if n := c.dropped[r].Load(); n > 0 {
			i.Dropped[wire.Reason(r).String()] = n
		}
	}
	return i
}

// lookLinks tells of the links with the largest delay bounds, and of those that went.
func (w *watching) lookLinks(s *Server, now mono.Time, to []watch.Event) []watch.Event {
	var all []watch.Info
	add := func(role, name string, l transport.Link) {
		stats := l.Stats()
		all = append(all, watch.Info{Name: role + " " + name, Role: role, Delay: stats.DelayBound, RTT: stats.RTT})
	}
	for _, b := range s.backends {
		if b.admitted.Load() {
			add("backend", b.name, b.link)
		}
	}
	for _, f := range s.frontends {
		if f.admitted.Load() {
			add("frontend", f.name, f.link)
		}
	}
	slices.SortFunc(all, func(a, b watch.Info) int {
		return cmp.Or(cmp.Compare(b.Delay, a.Delay), cmp.Compare(a.Name, b.Name))
	})
	all = all[:min(len(all), linksMost)]
	left := w.links
	w.links = map[string]watch.Info{}
	for i := range all {
		to = append(to, watch.Event{Kind: watch.Link, At: now, Info: &all[i]})
		w.links[all[i].Name] = all[i]
		delete(left, all[i].Name)
	}
	for name := range left {
		to = append(to, watch.Event{Kind: watch.Link, At: now, Info: &watch.Info{Name: name, Gone: true}})
	}
	return to
}

// knows reports whether all pools have been told of.
func (w *watching) knows() bool {
	for _, p := range w.now {
		if p.index >= len(w.pools) || w.pools[p.index].pool != p {
			return false
		}
	}
	return true
}
