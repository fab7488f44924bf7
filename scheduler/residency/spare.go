package residency

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Spare loads are for requests without deadlines (best effort), which are in no demand: the caller knows of them, says when one is
// to be ordered (LoadSpare), and whose batches use the weights (Borrow, Return). What requests with deadlines need comes before them:
//
//   - One begins only where the loader has nothing to do, and while nobody with a deadline wants a load.
//   - It takes pages that are free, or of models that nobody with a deadline has asked for in the last Keep.
//   - Whom best effort alone uses stands where the least recently used stand, so a load for a deadline takes those pages first, unless a
//     batch runs there: Borrow and Return are no use by which models stay.

const (
	// keep is how long weights are counted on after the last request with a deadline: as long as its slack is (package gaps).
	keep = 60 * mono.Second
	// adoptedKeep is how long weights are counted on that a life of a GPU began with, and nobody has used since: who counts on them asks soon,
	// and when others used them nobody has told.
	adoptedKeep = 5 * mono.Second
	// evictedFresh: the age at which weights go counts for one part in so many of it.
	evictedFresh = 4
	// spareRest is how long weights stay that best effort has run with, or that were loaded for it, while others wait for theirs and
	// have had as much: it is time for them to find a gap.
	spareRest = mono.Second
)

// Peers say who of those that have no deadlines gives way to another.
type Peers interface {
	// Yields tells whether the model's weights may go, although best effort has used them lately.
	Yields(id wire.ModelID) bool
}

// Seat is what it takes to have a model on a GPU; a larger one harms less.
type Seat uint8

const (
	NoSeat    Seat = iota // nothing may be loaded there, or not enough make room
	SeatTaken             // who makes room is used by best effort
	SeatIdle              // who makes room is used by nobody
	SeatFree              // there are pages
)

// Spare is what a load for best effort would take from a GPU.
func (r *Residency) Spare(now mono.Time, id wire.ModelID, on wire.GPUID, peers Peers) Seat {
	m := r.model(id)
	if m == nil || int(on) >= len(r.gpus) || r.board.len() > 0 || m.copies >= min(r.cfg.Copies, r.count) || now < r.Healed(id) {
		return NoSeat
	}
	g := &r.gpus[on]
	if g.missing > 0 && now >= g.doubted {
		r.believe(now)
	}
	if !g.present || g.undoneN > 0 || now < g.rests || g.pages < int(m.pages) || r.places.of(m, on) != none || r.lingers(id, g) {
		return NoSeat
	}
	return r.yield(now, g, int(m.pages)-g.room(), peers)
}

// yield finds who makes room for best effort where so many pages are short: victims.
func (r *Residency) yield(now mono.Time, g *gpu, short int, peers Peers) Seat {
	r.victims = r.victims[:0]
	if short <= 0 {
		return SeatFree
	}
	if g.idle < short {
		return NoSeat
	}
	since := g.countedSince(now)
	for seat := SeatIdle; seat >= SeatTaken; seat-- {
		for p := g.oldest; p != none && short > 0; p = r.places.all[p].newer {
			at := &r.places.all[p]
			if g.lastUse(at) > since { // and so is whoever follows
				break
			}
			if !r.isLoose(p) || r.counted(since, at) || (at.spared > now.Add(-spareRest)) == (seat == SeatIdle) || seat == SeatTaken && !peers.Yields(at.model) {
				continue
			}
			r.victims = append(r.victims, p)
			short -= int(at.pages)
		}
		if short <= 0 {
			r.trim(short)
			return seat
		}
	}
	return NoSeat
}

// counted: requests with deadlines, that have come since, count on the weights.
func (r *Residency) counted(since mono.Time, at *place) bool {
	m := &r.models[at.model]
	return m.waiting.Len() > 0 || m.asked > since
}

// countedSince is since when weights must have been used to be counted on. Where loads for deadlines evict others all the time, nobody
// counts on those that are older than the last ones that went so: the next such load takes them, and after it has taken those of
// best effort in their place, all is as if there had been none.
func (g *gpu) countedSince(now mono.Time) mono.Time {
	since := now.Add(-keep)
	if g.evictedAge > 0 && now.Sub(g.evicted) < g.evictedAge/evictedFresh {
		since = max(since, now.Add(-g.evictedAge))
	}
	return since
}

// lastUse is when a place was used last, as far as it counts.
func (g *gpu) lastUse(at *place) mono.Time {
	if at.used == g.began {
		return at.used.Add(adoptedKeep - keep)
	}
	return at.used
}

// evicts notes who makes room for a load for deadlines.
func (g *gpu) evicts(now mono.Time, at *place) {
	if at.used > mono.Past {
		g.evicted, g.evictedAge = now, now.Sub(at.used)
	}
}

// LoadSpare orders a load for best effort where Spare finds a seat; false: there is none.
func (r *Residency) LoadSpare(now mono.Time, id wire.ModelID, on wire.GPUID, peers Peers, out *Out) bool {
	if r.Spare(now, id, on, peers) == NoSeat {
		return false
	}
	r.order(now, id, on, true, out)
	p := r.places.of(&r.models[id], on)
	invariants.Check(p != none, "residency: a load without a place")
	r.places.all[p].used = mono.Past
	r.spare(now, p)
	return true
}

// Openings are the GPUs that could begin a load of any model at an instant, as far as it takes to tell for each GPU whether there is
// one beside it.
type Openings struct {
	n    int // 2: two or more
	last wire.GPUID
}

// Openings finds them: a walk over the GPUs, until there are two. They hold until something changes.
func (r *Residency) Openings() (o Openings) {
	for id := range r.gpus {
		r.counts.Walked++
		if g := &r.gpus[id]; g.present && g.undoneN == 0 && g.room()+g.idle >= r.largest {
			if o.n, o.last = o.n+1, wire.GPUID(id); o.n == 2 {
				break
			}
		}
	}
	return o
}

// Beside tells whether another GPU than this one is among them.
func (o Openings) Beside(gpu wire.GPUID) bool { return o.n > 1 || o.n == 1 && o.last != gpu }

// Healed is until when no load of the model is tried without need, for the last ones failed.
func (r *Residency) Healed(id wire.ModelID) mono.Time {
	if m := r.model(id); m != nil && m.failures > 0 {
		return m.heals
	}
	return mono.Past
}

// Borrow tells that a batch of best effort was sent to the GPU: the model is used there until Return. It is the
// generation that the batch is to carry; 0: the model is not there.
func (r *Residency) Borrow(now mono.Time, id wire.ModelID, gpu wire.GPUID) Generation {
	gen := r.Hold(id, gpu)
	if gen != 0 {
		r.spare(now, r.places.of(r.model(id), gpu))
	}
	return gen
}

// Return tells that such a batch is done, refused or lost; one of another generation is ignored.
func (r *Residency) Return(now mono.Time, id wire.ModelID, gpu wire.GPUID, gen Generation) {
	if p := r.find(id, gpu, gen); p != none {
		r.spare(now, p)
		r.use(p, -1)
		r.retry() // now, whenever the last choice was: at the end of this Step the GPU may be lent again
	}
}

// spare notes that best effort uses a place. Of those that it alone uses it is the last one that makes room.
func (r *Residency) spare(now mono.Time, p int32) {
	at := &r.places.all[p]
	at.spared = now
	if g := &r.gpus[at.gpu]; at.used == mono.Past && g.spares != p {
		r.unlink(g, p)
		r.pushSpare(g, p)
	}
}
