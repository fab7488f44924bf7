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
	w := t.begin(watch.Load, now, watch.LoadWords)
	if w == nil {
		return
	}
	why := watch.Cold
	if o.Copies > 1 {
		why = watch.Copy
	}
	w[2], w[3], w[4], w[5] = uint64(o.ID), uint64(o.Model), uint64(o.GPU), uint64(why)
	w[6], w[7], w[8] = uint64(o.Pages), uint64(o.Start), uint64(o.Until)
	t.end(len(w))
}

// loaded tells of a loader's report.
func (t *tap) loaded(now mono.Time, ev *rankEvent) {
	w := t.begin(watch.Loaded, now, watch.LoadedWords)
	if w == nil {
		return
	}
	r, what := &ev.paging.report, watch.Failed
	if r.OK {
		what = watch.Arrived
	}
	w[2], w[3], w[4], w[5] = uint64(r.ID), uint64(ev.model), uint64(ev.gpu.ID), uint64(what)
	w[6], w[7] = uint64(r.Start), uint64(r.End)
	t.end(len(w))
	t.head.Store(t.at)
}

// evict tells of weights that are ordered to go, but for those of models that have no id here.
func (t *tap) evict(now mono.Time, u *residency.Unload) {
	if u.Model >= ModelIDsMax {
		return
	}
	w := t.begin(watch.Evict, now, watch.EvictWords)
	if w == nil {
		return
	}
	w[2], w[3], w[4] = uint64(u.Model), uint64(u.GPU), uint64(whyEvicted(u.Why))
	w[5], w[6] = uint64(u.For), uint64(u.Used)
	t.end(len(w))
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
