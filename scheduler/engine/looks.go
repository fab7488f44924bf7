package engine

import (
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PagingLook is what the GPUs of a paged engine hold, and how its models stand, as the rank loop saw it at an instant. Whoever
// has it changes nothing in it.
type PagingLook struct {
	At     mono.Time
	GPUs   []GPUMemory     // by id, those that are not there with Pages 0
	Models []ModelStanding // by id

	era uint64 // of paging, when it was taken
}

// GPUMemory and ModelStanding are residency's.
type (
	GPUMemory     = residency.Memory
	ModelStanding = residency.Standing
)

// LookAtPages asks the rank loop of a paged engine for a look; PagesSeen has it soon. One is under way at a time.
func (e *Engine) LookAtPages() {
	if p := e.rank.paging; p != nil && !p.asked.Swap(true) {
		e.orderRank(&rankEvent{op: rankLook})
	}
}

// PagesSeen is the last look; nil: none has begun since the last call of ForgetPages.
func (e *Engine) PagesSeen() *PagingLook {
	if p := e.rank.paging; p != nil {
		if look := p.seen.Load(); look != nil && look.era == p.era.Load() {
			return look
		}
	}
	return nil
}

// ForgetPages gives the last look's memory back: nobody looks any more, and who does next sees none of before, one that is under way
// now included.
func (e *Engine) ForgetPages() {
	if p := e.rank.paging; p != nil {
		p.era.Add(1)
		p.seen.Store(nil)
	}
}

// lookLoop takes a look.
func (p *paging) lookLoop(now mono.Time) {
	p.showLoop(p.takeLoop(now))
	p.asked.Store(false)
}

func (p *paging) takeLoop(now mono.Time) *PagingLook {
	r := p.match.Residency()
	look := &PagingLook{At: now, GPUs: make([]GPUMemory, len(p.lives)), Models: make([]ModelStanding, r.Models()), era: p.era.Load()}
	for id := range look.GPUs {
		look.GPUs[id], _ = r.Memory(wire.GPUID(id))
	}
	for id := range look.Models {
		look.Models[id], _ = r.Standing(now, wire.ModelID(id))
	}
	return look
}

// showLoop has a look be the last one, unless it was forgotten meanwhile: before it is stored, which is seen here, or after that.
func (p *paging) showLoop(look *PagingLook) {
	if p.seen.Store(look); look.era != p.era.Load() {
		p.seen.Store(nil)
	}
}

// load tells of a load that is ordered.
func (t *tap) load(now mono.Time, o *residency.Load) {
	if !t.begin(watch.Load, now, watch.LoadWords) {
		return
	}
	why := watch.Cold
	if o.Copies > 1 {
		why = watch.Copy
	}
	t.put(uint64(o.ID))
	t.put(uint64(o.Model))
	t.put(uint64(o.GPU))
	t.put(uint64(why))
	t.put(uint64(o.Pages))
	t.put(uint64(o.Start))
	t.put(uint64(o.Until))
}

// loaded tells of a loader's report.
func (t *tap) loaded(now mono.Time, ev *rankEvent) {
	if !t.begin(watch.Loaded, now, watch.LoadedWords) {
		return
	}
	r, what := &ev.paging.report, watch.Failed
	if r.OK {
		what = watch.Arrived
	}
	t.put(uint64(r.ID))
	t.put(uint64(ev.model))
	t.put(uint64(ev.gpu.ID))
	t.put(uint64(what))
	t.put(uint64(r.Start))
	t.put(uint64(r.End))
	t.head.Store(t.at)
}

// evict tells of weights that are ordered to go, but for those of models that have no id here.
func (t *tap) evict(now mono.Time, u *residency.Unload) {
	if u.Model >= ModelIDsMax || !t.begin(watch.Evict, now, watch.EvictWords) {
		return
	}
	t.put(uint64(u.Model))
	t.put(uint64(u.GPU))
	t.put(uint64(whyEvicted(u.Why)))
	t.put(uint64(u.For))
	t.put(uint64(u.Used))
}

// whyEvicted is residency's reason as who watches reads it.
func whyEvicted(w residency.Why) watch.Why {
	switch w {
	case residency.Room:
		return watch.Room
	case residency.Removed:
		return watch.Removed
	}
	return watch.Stray
}
