package executor

import (
	"cmp"
	"errors"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// loadsMax bounds the loads that wait for a device: a scheduler has four unreported ones at most, and as many
// may have crossed their reports.
const loadsMax = 8

// loader is the weights on a paged device and the orders to bring some, beside its executor and under its lock.
//
//	absent --load begins--> copied --its end--> resident --unload--> leaving --device has forgotten--> absent
//	                          |                                        ^
//	                          +--void: fence, unload, model gone-------+
//
// Pages are counted twice. free is what the scheduler reckons with: all, less those of weights that
// batches may count on and of the one that is copied; an unload's count at once. taken is what the
// device really uses, leaving weights included: they leave when no batch runs with them, and a
// load that needs their room waits for that.
//
// # Rules
//
//  1. One load is copied at a time; those that wait are begun in order of Earliest.
//  2. An unload takes effect at once and is never refused. A batch that runs with the weights goes on to its end,
//     and its outputs are not used.
//  3. Each order gets one report, but for void ones: at a Fence, at Introduce and at Suspend what waits is
//     forgotten, and what is copied leaves when it is there.
//  4. free <= all - (pages of resident weights and of a copy that is not void), and taken <= all.
type loader struct {
	exec   *Executor // Immutable, and so are the next ones.
	pager  Pager
	report LoadReporter
	all    int // pages

	// Guarded by exec.mu.
	free     int
	taken    int
	slots    []weights
	queue    []*load // in order of Earliest
	copied   *load   // being; nil: none is
	leaving  []int   // slots
	stepping bool    // somebody is in the loop of step
}

// weights are a slot's.
type weights struct {
	generation wire.Generation // that batches may count on; 0: none
	pages      int             // of the device that they take; 0: they are absent
	forgetting bool            // the device has been told to
	fresh      bool            // no batch has run with them
	used       mono.Time       // last
}

// load is one that waits or is copied.
type load struct {
	LoadOrder
	pages int
	void  bool // what it brings leaves again, and it is not reported
}

func newLoader(e *Executor, d Device, report Reporter) *loader {
	p, ok := d.(Pager)
	if !ok || p.Pages() <= 0 {
		return nil
	}
	l := &loader{exec: e, pager: p, all: p.Pages(), free: p.Pages()}
	l.report, ok = report.(LoadReporter)
	invariants.Check(ok, "executor: a paged device whose loads nobody is told of")
	return l
}

// Load takes an order to load or to unload; false: the device has no pages.
func (e *Executor) Load(in *LoadOrder) bool {
	if e.loader == nil {
		return false
	}
	if in.Op == wire.OpUnload {
		e.loader.unload(in)
		return true
	}
	e.loader.load(in)
	return true
}

func (l *loader) load(in *LoadOrder) {
	e := l.exec
	e.mu.Lock()
	if in.Epoch < e.fence || e.closed || e.suspended {
		e.mu.Unlock()
		return
	}
	if len(l.queue) >= loadsMax {
		r := l.refusal(in, wire.ReasonFull)
		e.mu.Unlock()
		l.tell(&r)
		return
	}
	at := len(l.queue)
	for at > 0 && l.queue[at-1].Earliest > in.Earliest {
		at--
	}
	l.queue = slices.Insert(l.queue, at, &load{LoadOrder: *in})
	e.mu.Unlock()
	l.step()
}

func (l *loader) unload(in *LoadOrder) {
	e := l.exec
	e.mu.Lock()
	if in.Epoch < e.fence || e.closed || e.suspended {
		e.mu.Unlock()
		return
	}
	reports := l.forgetLocked(in.ModelIndex, in.Generation, wire.ReasonCold)
	reports = append(reports, l.refusal(in, wire.ReasonNone))
	e.mu.Unlock()
	l.tellAll(reports)
	l.resume()
}

// resume goes on after weights came or went: batches may have waited for them.
func (l *loader) resume() {
	l.step()
	l.exec.start()
}

// forgetLocked has a slot's weights leave, of one generation or, with 0, of any, and ends the loads of it that are under way
// with a reason. Caller holds exec.mu, and sends the reports.
func (l *loader) forgetLocked(slot int, gen wire.Generation, why wire.Reason) (reports []wire.Loaded) {
	if slot < 0 {
		return nil
	}
	if slot < len(l.slots) && l.slots[slot].generation != 0 && (gen == 0 || gen == l.slots[slot].generation) {
		l.leaveLocked(slot)
	}
	if c := l.copied; c != nil && !c.void && c.ModelIndex == slot && (gen == 0 || gen == c.Generation) {
		c.void = true
		l.free += c.pages
		reports = append(reports, l.refusal(&c.LoadOrder, why))
	}
	l.queue = slices.DeleteFunc(l.queue, func(q *load) bool {
		gone := q.ModelIndex == slot && (gen == 0 || gen == q.Generation)
		if gone {
			reports = append(reports, l.refusal(&q.LoadOrder, why))
		}
		return gone
	})
	return reports
}

// leaveLocked takes weights from those that batches may count on. Caller holds exec.mu.
func (l *loader) leaveLocked(slot int) {
	w := &l.slots[slot]
	w.generation = 0
	l.free += w.pages
	l.leaving = append(l.leaving, slot)
}

// voidLocked ends all loads that are under way, without a word. Caller holds exec.mu.
func (l *loader) voidLocked() {
	l.queue = nil
	if c := l.copied; c != nil && !c.void {
		c.void = true
		l.free += c.pages
	}
}

// step does what can be done: weights that leave are forgotten, the first load is begun. One goroutine
// at a time; another one leaves its news to that one, which looks again.
func (l *loader) step() {
	e := l.exec
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.stepping {
		return
	}
	l.stepping = true
	defer func() { l.stepping = false }()
	for {
		do := l.nextLocked(mono.Now())
		if do == nil {
			return
		}
		e.mu.Unlock()
		do()
		e.mu.Lock()
	}
}

// nextLocked is the next step, to be done without the lock; nil: there is none now. Caller holds exec.mu.
func (l *loader) nextLocked(now mono.Time) func() {
	if l.exec.closed {
		return nil
	}
	for _, slot := range l.leaving {
		if w := &l.slots[slot]; !w.forgetting && !l.exec.runsLocked(slot) {
			w.forgetting = true
			return func() { l.pager.Unload(slot, func() { l.forgotten(slot) }) }
		}
	}
	if l.copied != nil || len(l.queue) == 0 {
		return nil
	}
	first := l.queue[0]
	refuse := func(why wire.Reason) func() {
		l.queue = slices.Delete(l.queue, 0, 1)
		r := l.refusal(&first.LoadOrder, why)
		return func() {
			l.tell(&r)
			l.exec.start()
		}
	}
	m := l.exec.modelOf(first.ModelIndex, first.Meant)
	switch {
	case m == nil:
		return refuse(wire.ReasonUnknownModel)
	case now > first.Latest:
		return refuse(wire.ReasonLate)
	}
	for len(l.slots) <= first.ModelIndex {
		l.slots = append(l.slots, weights{})
	}
	w := &l.slots[first.ModelIndex]
	if w.generation != 0 { // its scheduler has lost count: the newer order holds
		l.leaveLocked(first.ModelIndex)
		return l.nextLocked(now)
	}
	first.pages = max(1, m.Pages)
	switch {
	case first.pages > l.free:
		return refuse(wire.ReasonMemory)
	case w.pages > 0 || first.pages > l.all-l.taken:
		return nil // what leaves makes room when nothing runs with it any more
	}
	l.queue = slices.Delete(l.queue, 0, 1)
	l.copied = first
	l.free -= first.pages
	l.taken += first.pages
	return func() { l.pager.Load(first.ModelIndex, l.loaded) }
}

// loaded is the end of the copy under way.
func (l *loader) loaded(c Copied) {
	e := l.exec
	e.mu.Lock()
	o := l.copied
	l.copied = nil
	w := &l.slots[o.ModelIndex]
	r := wire.Loaded{Reason: wire.ReasonNone}
	switch {
	case c.Err != nil:
		l.taken -= o.pages
		if !o.void {
			l.free += o.pages
		}
		r.Reason = wire.ReasonExecution
		if errors.Is(c.Err, ErrMemory) {
			r.Reason = wire.ReasonMemory
		}
	case o.void:
		*w = weights{pages: o.pages}
		l.leaving = append(l.leaving, o.ModelIndex)
	default:
		*w = weights{generation: o.Generation, pages: o.pages, fresh: true, used: c.End}
		r.Copied = uint64(max(0, c.Bytes))
	}
	l.checkLocked()
	silent := o.void || e.closed
	l.fill(&r, &o.LoadOrder)
	r.Start, r.End = c.Start, c.End
	e.mu.Unlock()
	if !silent {
		l.tell(&r)
		if c.Err != nil && e.obs.LoadFailed != nil {
			e.obs.LoadFailed(&o.LoadOrder, c.Err)
		}
	}
	l.resume()
}

// forgotten says that the device has no weights in a slot any more.
func (l *loader) forgotten(slot int) {
	e := l.exec
	e.mu.Lock()
	w := &l.slots[slot]
	l.taken -= w.pages
	*w = weights{}
	l.leaving = slices.DeleteFunc(l.leaving, func(s int) bool { return s == slot })
	l.checkLocked()
	e.mu.Unlock()
	l.step()
}

// weighLocked says whether weights of a generation are there for an order of a slot, or on their way. Caller
// holds exec.mu.
func (l *loader) weighLocked(slot int, gen wire.Generation) (there, coming bool) {
	if slot < len(l.slots) && l.slots[slot].generation == gen {
		return gen != 0, false
	}
	if c := l.copied; c != nil && !c.void && c.ModelIndex == slot && c.Generation == gen {
		return false, true
	}
	return false, slices.ContainsFunc(l.queue, func(q *load) bool { return q.ModelIndex == slot && q.Generation == gen })
}

// useLocked notes that a batch begins or ends with a slot's weights, and reports whether it is their first one. Caller
// holds exec.mu.
func (l *loader) useLocked(slot int) (first bool) {
	w := &l.slots[slot]
	first, w.fresh, w.used = w.fresh, false, mono.Now()
	return first
}

// heldLocked are the weights that batches may count on, least recently used first. Caller holds exec.mu.
func (l *loader) heldLocked() (all []Weights) {
	for slot := range l.slots {
		if gen := l.slots[slot].generation; gen != 0 {
			all = append(all, Weights{slot, gen})
		}
	}
	slices.SortStableFunc(all, func(a, b Weights) int { return cmp.Compare(l.slots[a.Slot].used, l.slots[b.Slot].used) })
	return all
}

// usesLocked reports whether weights of a slot are here, or come. Caller holds exec.mu.
func (l *loader) usesLocked(slot int) bool {
	return slot < len(l.slots) && l.slots[slot].pages > 0 || l.copied != nil && l.copied.ModelIndex == slot ||
		slices.ContainsFunc(l.queue, func(q *load) bool { return q.ModelIndex == slot })
}

// checkLocked asserts that no page is lost and none is counted twice. Caller holds exec.mu.
func (l *loader) checkLocked() {
	if !invariants.Enabled {
		return
	}
	taken, counted := 0, 0
	for i := range l.slots {
		w := &l.slots[i]
		taken += w.pages
		if w.generation != 0 {
			counted += w.pages
		}
	}
	if c := l.copied; c != nil {
		taken += c.pages
		if !c.void {
			counted += c.pages
		}
	}
	invariants.Check(taken == l.taken && taken <= l.all, "executor: pages in use are not those of weights")
	invariants.Check(counted+l.free == l.all && l.free >= 0, "executor: free pages and those of weights are not all")
}

// refusal is the report of an order that nothing was copied for. Caller holds exec.mu.
func (l *loader) refusal(o *LoadOrder, why wire.Reason) wire.Loaded {
	now := mono.Now()
	r := wire.Loaded{Reason: why, Start: now, End: now}
	l.fill(&r, o)
	return r
}

// fill says of which order a report is, and what is free. Caller holds exec.mu.
func (l *loader) fill(r *wire.Loaded, o *LoadOrder) {
	r.Epoch, r.Load, r.Model, r.Device, r.Pool = o.Epoch, o.Load.Load, o.Model, o.Device, o.Pool
	r.Op, r.Generation, r.Free = o.Op, o.Generation, uint32(l.free)
}

func (l *loader) tell(r *wire.Loaded) {
	l.report.Loaded(r)
	if l.exec.obs.Loaded != nil {
		l.exec.obs.Loaded(r)
	}
}

func (l *loader) tellAll(all []wire.Loaded) {
	for i := range all {
		l.tell(&all[i])
	}
}
