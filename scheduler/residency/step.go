package residency

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Step does what is due: unloads what its model left, orders loads, and tells which requests none can help.
func (r *Residency) Step(now mono.Time, out *Out) {
	for _, p := range r.leaving {
		r.unload(p, Unload{Why: Removed}, out)
		r.retry() // a model of the same id may have waited for it (lingers)
	}
	r.leaving = r.leaving[:0]
	r.keepPinned(now, out)
	r.choose(now, out)
	for r.fates.Len() > 0 {
		id, at := r.fates.Min()
		if at > int64(now) {
			return
		}
		r.judge(now, wire.ModelID(id), out)
		r.choose(now, out) // a load may help it again: what one took once is forgotten
	}
}

// NextWake is when Step is due if nothing is told before; Never when nothing is.
func (r *Residency) NextWake() mono.Time {
	if len(r.leaving) > 0 {
		return mono.Past
	}
	wake := r.pins
	if r.fates.Len() > 0 {
		_, at := r.fates.Min()
		wake = mono.Time(at)
	}
	if r.board.len() == 0 || r.loaders.Len() == 0 {
		return wake
	}
	wake = min(wake, r.opens)
	if r.changed {
		_, at := r.loaders.Min()
		wake = min(wake, max(r.rest, mono.Time(at)))
	}
	return wake
}

// restsMax times Rest is for how long choices rest after many of them in vain, each twice as long as before: where
// all pages are in use, a choice is dear (BenchmarkNoRoom), and finds nothing.
const restsMax = 16

// choose orders loads until no loader is open or nothing is worth a load that could be had.
//
// The board is out of date in two ways. Time passes: fewer of a model's requests can be helped, its worth
// falls, and its load is due later. So whoever comes first is priced anew and stays first or
// goes down, and who is found first at last is so in truth. And the loads of GPUs change at the events of other
// models: that is made good at the model's own next event, as in the paper, or when it comes first.
//
// Rejected: to price all models on a GPU whenever its load changes. They are 200, at each request.
func (r *Residency) choose(now mono.Time, out *Out) {
	if r.board.len() == 0 || r.loaders.Len() == 0 || (!r.changed || now < r.rest) && now < r.opens {
		return
	}
	if !r.anyOpen(now) {
		_, at := r.loaders.Min()
		r.opens = mono.Time(at)
		return
	}
	r.believe(now)
	before := r.counts.Loads
	if r.cfg.Rule == BySaving {
		for r.anyOpen(now) && r.loadWorthiest(now, out) {
		}
	} else {
		for id := range r.gpus {
			for r.open(now, &r.gpus[id]) && r.loadOnto(now, wire.GPUID(id), out) {
			}
		}
	}
	r.changed, r.opens = false, mono.Never
	r.patience = min(2*r.patience, restsMax*r.cfg.Rest)
	if r.counts.Loads > before {
		r.patience = r.cfg.Rest
	}
	for id := range r.gpus {
		g := &r.gpus[id]
		switch {
		case r.open(now, g) && r.board.len() > 0:
			r.rest = now.Add(r.patience) // it wants work, and could have none of what there is
		case g.present && g.undoneN < r.cfg.Outstanding:
			r.opens = min(r.opens, r.opensAt(g))
		}
	}
}

// anyOpen reports whether any loader wants work.
func (r *Residency) anyOpen(now mono.Time) bool {
	if r.loaders.Len() == 0 {
		return false
	}
	_, at := r.loaders.Min()
	return at <= int64(now)
}

// next is the worthiest model on the board whose worth is that of now; false: the first one's has
// changed, and the board with it.
func (r *Residency) next(now mono.Time) (wire.ModelID, bool) {
	e := r.board.first()
	id := wire.ModelID(e.id)
	r.price(now, id, &r.models[id])
	return id, r.board.len() > 0 && r.board.first() == e
}

// pass takes the first model off the board until recall: nothing can be done for it now.
func (r *Residency) pass() {
	e := r.board.first()
	r.board.remove(e.id)
	r.passed = append(r.passed, e)
}

// recall puts those that were passed back.
func (r *Residency) recall() {
	for _, e := range r.passed {
		if !r.board.has(e.id) { // else it came back by itself: it made room
			r.board.set(e)
		}
	}
	r.passed = r.passed[:0]
}

// loadWorthiest orders one load by BySaving: of the worthiest model that some GPU can take.
func (r *Residency) loadWorthiest(now mono.Time, out *Out) (ordered bool) {
	sacrifices := sacrificesMax
	return r.loadOne(now, func(id wire.ModelID) (wire.GPUID, bool) { return r.host(now, id, &sacrifices) }, out)
}

// loadOnto orders one load of the rules of the paper: of the largest priority that is not on this GPU.
func (r *Residency) loadOnto(now mono.Time, on wire.GPUID, out *Out) (ordered bool) {
	g := &r.gpus[on]
	return r.loadOne(now, func(id wire.ModelID) (wire.GPUID, bool) {
		m := &r.models[id]
		return on, g.room()+g.loose >= int(m.pages) && r.places.of(m, on) == none && !r.lingers(id, g) && r.makeRoom(g, int(m.pages), r.board.first().worth, true)
	}, out)
}

// loadOne orders a load of the first model on the board that finds a host among those that are looked at.
func (r *Residency) loadOne(now mono.Time, host func(wire.ModelID) (wire.GPUID, bool), out *Out) (ordered bool) {
	for looks := 0; looks < r.cfg.Looks && r.board.len() > 0 && !ordered; looks++ {
		id, ok := r.next(now)
		if !ok {
			continue
		}
		if on, ok := host(id); ok {
			r.order(now, id, on, false, out)
			ordered = true
		} else {
			r.pass()
		}
	}
	r.recall()
	return ordered
}
