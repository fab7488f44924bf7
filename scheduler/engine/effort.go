package engine

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Best effort goes between the loops as candidates and grants do, beside their mailboxes:
//
//	model loop: Wish, or the answer to a Fill --> wishBox, rankWish or rankFilled --> rank loop
//	rank loop:  Fill                          --> opFill                          --> model loop
//
// Invariant: whenever the rank loop handles an event of a box it reads the box's latest wish. So what it knows is never older than
// the answer, and what comes after its look brings another event (told).

// wishBox is what a model with best effort has to tell the rank loop. One that is removed and comes back has another: the last
// event of the old box, which the rank may handle when there are wishes again, must not take their place.
type wishBox struct {
	model  wire.ModelID // Immutable.
	least  atomic.Int64 // Shared: gaps.Wish.Least, in force
	told   atomic.Bool  // Shared: the rank's ring has a rankWish of it
	answer gaps.Answer  // of the last Fill: the model loop's until rankFilled, the rank loop's until the next opFill
}

// effortNews is what the rank's core is told: a wish, and the answer before it, if that is one.
type effortNews struct {
	wish     gaps.Wish
	answer   gaps.Answer
	answered bool
}

// effortCore is either matchmaker, to best effort; paged.Paged by effortPaged.
type effortCore interface {
	SetWish(w gaps.Wish)
	Filled(a gaps.Answer)
}

func (n *effortNews) apply(r effortCore) {
	if n.answered {
		n.answer.Least = n.wish.Least
		r.Filled(n.answer)
		return
	}
	r.SetWish(n.wish)
}

// effortPaged is paged.Paged at an instant.
type effortPaged struct {
	match *paged.Paged
	now   mono.Time
}

func (p *effortPaged) SetWish(w gaps.Wish)  { p.match.SetWish(p.now, w) }
func (p *effortPaged) Filled(a gaps.Answer) { p.match.Filled(p.now, a) }

// wishBoxOf is the model's box; it begins with the first use.
func (l *modelLoop) wishBoxOf(id wire.ModelID) *wishBox {
	for int(id) >= len(l.wishes) {
		l.wishes = append(l.wishes, nil)
	}
	if l.wishes[id] == nil {
		l.wishes[id] = &wishBox{model: id}
	}
	return l.wishes[id]
}

// wishLoop tells the rank loop of answers and wishes.
func (l *modelLoop) wishLoop() {
	for i := range l.out.Fills {
		a := &l.out.Fills[i]
		box := l.wishBoxOf(a.Grant.Model)
		box.answer = *a
		box.least.Store(int64(a.Least))
		l.engine.toRank(&rankEvent{op: rankFilled, model: box.model, effort: box}, mono.Past)
	}
	for _, w := range l.out.Wishes {
		box := l.wishBoxOf(w.Model)
		box.least.Store(int64(w.Least))
		if !box.told.Swap(true) {
			l.engine.toRank(&rankEvent{op: rankWish, model: box.model, effort: box}, mono.Past)
		}
	}
}

// effortEvent hands a box's news to the core.
func (l *rankLoop) effortEvent(now mono.Time, ev *rankEvent) {
	if ev.op == rankWish {
		ev.effort.told.Store(false) // before the look: who writes after it tells again
	}
	n := effortNews{wish: gaps.Wish{Model: ev.model, Least: mono.Dur(ev.effort.least.Load())}, answered: ev.op == rankFilled}
	if n.answered {
		n.answer = ev.effort.answer
	}
	if p := l.paging; p != nil {
		p.effort.now = now
		n.apply(&p.effort)
	} else {
		n.apply(l.rank)
	}
	l.log.effort(now, &n)
}

// lendLoop sends what the rank lends.
func (l *rankLoop) lendLoop() {
	if l.paging == nil { // else they are among its orders
		l.log.lent(l.out.Fills)
	}
	for i := range l.out.Fills {
		g := &l.out.Fills[i]
		in := input{op: opFill, grant: rank.Grant{Model: g.Model, GPU: g.GPU, Life: g.Life, Due: g.Until}}
		in.grant.FreeAt, in.grant.Generation = g.FreeAt, g.Generation
		l.engine.command(l.engine.loopOf(g.Model), &in)
	}
	l.stats.dispatches.Add(uint64(len(l.out.Fills)))
	l.out.Fills = l.out.Fills[:0]
}

// fillOf is what an opFill's grant stands for: its Due is by when the batch must end.
func fillOf(g *rank.Grant) gaps.Grant {
	return gaps.Grant{Model: g.Model, GPU: g.GPU, Life: g.Life, FreeAt: g.FreeAt, Until: g.Due, Generation: g.Generation}
}

func (l *rankLog) effort(now mono.Time, n *effortNews) {
	if l != nil {
		copied := *n
		l.records.add(&rankRecord{now: now, effort: &copied})
	}
}

func (l *rankLog) lent(fills []gaps.Grant) {
	if l != nil {
		l.records.add(&rankRecord{lent: slices.Clone(fills)})
	}
}

// replayEffort replays record i, if it is one of best effort, on a core whose last step had out.
func (l *rankLog) replayEffort(i int, core *rank.Rank, out *rank.Out) (was bool, err error) {
	rec := l.records.at(i)
	switch {
	case rec.effort != nil:
		rec.effort.apply(core)
		return true, nil
	case rec.lent != nil:
		if !slices.Equal(out.Fills, rec.lent) {
			return true, fmt.Errorf("rank record %d: replay lends %+v, live %+v", i, out.Fills, rec.lent)
		}
		out.Fills = out.Fills[:0]
		return true, nil
	case len(out.Fills) > 0:
		return true, fmt.Errorf("rank record %d: replay lends %+v, live nothing", i, out.Fills)
	}
	return false, nil
}
