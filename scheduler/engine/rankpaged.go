package engine

import (
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// paging is the rank loop's matchmaker where weights come and go, in the place of rank.Rank.
//
//	mail, reports, membership --> paged.Paged --> Loads, Unloads --> Loader
//	                                  |---------> Floors ----------> mailboxes, model loops
//	                                  +---------> Grants, as in any engine
//
// A floor does not wait for room: a mailbox has the last one of its model, and a model loop's ring word of it at
// most once (Engine.floorsKept).
type paging struct {
	loader Loader // Immutable.

	// Owned by the rank loop's run.
	match  *paged.Paged
	out    paged.Out
	boxes  []*mailbox  // by model; nil: it is not served
	lives  []rank.Life // by GPU
	effort effortPaged
	order  LoadOrder // scratch
	moved  bool      // pages have been taken or given back since they were counted

	stats pagingStats
	tap   atomic.Pointer[tap]        // Shared: nil while nobody watches (Watch)
	asked atomic.Bool                // Shared: a rankLook is on its way
	seen  atomic.Pointer[PagingLook] // Shared: written by the loop
	era   atomic.Uint64              // Shared: how often looks were forgotten
}

// event hands an event to the core, m and w with it if it is mail; false: it is of a life that has ended, and so of nothing.
func (p *paging) event(now mono.Time, ev *rankEvent, m *mail, w *wants) bool {
	switch ev.op {
	case rankLoaded:
		if int(ev.gpu.ID) >= len(p.lives) || p.lives[ev.gpu.ID] != ev.gpu.Life {
			return false
		}
	case rankModel:
		for int(ev.model) >= len(p.boxes) {
			p.boxes = append(p.boxes, nil)
		}
		p.boxes[ev.model] = ev.box
	case rankGone:
		p.boxes[ev.model] = nil
	case rankAdd:
		for int(ev.gpu.ID) >= len(p.lives) {
			p.lives = append(p.lives, 0)
		}
		p.lives[ev.gpu.ID] = ev.gpu.Life
	}
	p.moved = p.moved || ev.op == rankAdd || ev.op == rankRemove || ev.op == rankLoaded || ev.op == rankDone && ev.refused
	ev.applyPaged(now, p.match, m, w, &p.out)
	if ev.op == rankLoaded {
		if r := &ev.paging.report; r.End > r.Start {
			p.stats.copied.Add(int64(r.End.Sub(r.Start)))
		}
		if t := p.tap.Load(); t != nil {
			t.loaded(now, ev)
		}
	}
	return true
}

// step does what is due and carries out all but the grants and whom GPUs are lent, which it returns: valid until the next event.
func (p *paging) step(now mono.Time, l *rankLoop) ([]rank.Grant, []gaps.Grant) {
	p.match.Step(now, &p.out)
	l.log.stepPaged(now, &p.out)
	t := p.tap.Load()
	for i := range p.out.Unloads {
		u := &p.out.Unloads[i]
		p.order = LoadOrder{Model: u.Model, GPU: u.GPU, Life: p.lives[u.GPU], Generation: u.Generation, Earliest: now, Start: now, Latest: mono.Never, Until: now}
		p.loader.Load(&p.order)
		p.stats.evicted[u.Why].Add(1)
		if t != nil {
			t.evict(now, u)
		}
	}
	for i := range p.out.Loads {
		o := &p.out.Loads[i]
		p.order = LoadOrder{ID: o.ID, Model: o.Model, GPU: o.GPU, Life: p.lives[o.GPU], Generation: o.Generation, Pages: o.Pages, Copies: o.Copies,
			Earliest: now, Start: o.Start, Latest: o.Latest, Until: o.Until}
		p.loader.Load(&p.order)
		p.stats.ordered(o)
		if t != nil {
			t.load(now, o)
		}
	}
	if t != nil {
		t.head.Store(t.at)
	}
	if eager := p.match.Eager(); eager != p.stats.eager.Load() {
		p.stats.eager.Store(eager)
	}
	if len(p.out.Unloads)+len(p.out.Loads) > 0 {
		p.loader.FlushLoads()
		p.moved = true
	}
	if p.moved {
		p.moved = false
		p.stats.pages(p.match, len(p.lives))
	}
	for _, f := range p.out.Floors {
		p.tellFloor(l.engine, f)
	}
	grants, fills := p.out.Grants, p.out.Fills
	p.out.Reset()
	return grants, fills
}

// tellFloor leaves a floor in the model's mailbox.
func (p *paging) tellFloor(e *Engine, f residency.Floor) {
	if int(f.Model) >= len(p.boxes) || p.boxes[f.Model] == nil {
		return
	}
	box := p.boxes[f.Model]
	box.floor.Store(int64(f.Until))
	if !box.floorTold.Swap(true) {
		e.command(e.loopOf(f.Model), &input{op: opSetFloor, model: f.Model})
	}
}

// pagingStats are counters of a paged engine: written by the rank loop, read by anybody.
type pagingStats struct {
	cold, copies, effort, failed, lost, floors atomic.Uint64
	evicted                                    [residency.Removed + 1]atomic.Uint64 // by residency.Why
	free, all, missing, copied                 atomic.Int64
	eager                                      atomic.Bool
}

// ordered counts a load.
func (s *pagingStats) ordered(o *residency.Load) {
	if o.Spare {
		s.effort.Add(1)
	} else if o.Copies > 1 {
		s.copies.Add(1)
	} else {
		s.cold.Add(1)
	}
}

// pages sums up what GPUs below n have.
func (s *pagingStats) pages(p *paged.Paged, n int) {
	free, all, missing := 0, 0, 0
	for id := range n {
		f, a := p.Residency().Pages(wire.GPUID(id))
		free, all = free+f, all+a
		missing += p.Residency().Missed(wire.GPUID(id))
	}
	s.free.Store(int64(max(0, free-missing)))
	s.missing.Store(int64(missing))
	s.all.Store(int64(all))
	c := p.Residency().Counts()
	s.failed.Store(c.Failed)
	s.lost.Store(c.Lost)
	s.floors.Store(c.Floors)
}

// PagingStats are what a paged engine did since it began, and its pages now.
type PagingStats struct {
	Cold    uint64 // loads of models that no GPU held
	Copies  uint64 // further copies
	Effort  uint64 // loads for best effort, of either kind
	Unloads uint64 // weights that were ordered to go
	Failed  uint64 // loads that failed
	Lost    uint64 // weights that went with their GPU, or that a GPU did not have any more
	Floors  uint64 // times that a model's requests were told that no load saves them
	Eager   bool   // batches start as soon as they can (paged.Config.Eager), at the rank loop's last turn; else the whole deferral is spent

	PagesFree, Pages int
	PagesMissing     int                           // neither free, as their devices say, nor of weights that are known of
	Copied           mono.Dur                      // that loaders copied, by their reports
	Evicted          [residency.Removed + 1]uint64 // Unloads by residency.Why
}

func (s *pagingStats) snapshot() PagingStats {
	out := PagingStats{Cold: s.cold.Load(), Copies: s.copies.Load(), Effort: s.effort.Load(), Failed: s.failed.Load(), Lost: s.lost.Load(), Floors: s.floors.Load(), Eager: s.eager.Load(),
		PagesFree: int(s.free.Load()), Pages: int(s.all.Load()), PagesMissing: int(s.missing.Load()), Copied: mono.Dur(s.copied.Load())}
	for why := range out.Evicted {
		out.Evicted[why] = s.evicted[why].Load()
		out.Unloads += out.Evicted[why]
	}
	return out
}
