package residency

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Report is a loader's report of an order.
type Report struct {
	ID         LoadID
	Start, End mono.Time   // of the copying, as it was
	OK         bool        // false: the weights are not there, the pages are free
	Reason     wire.Reason // why not; ReasonNone: nobody says
	// Free are the pages that the device has for loads to come, as it counts itself: weights that are there, or are just
	// copied, have theirs. Only where it Tells.
	Free  int
	Tells bool
}

// ofModel reports whether a load that failed tells of its model: the device had the room and the time for it. One that nobody
// gives a reason for counts as such.
func (rep *Report) ofModel() bool {
	switch rep.Reason {
	case wire.ReasonLate, wire.ReasonMemory, wire.ReasonCold, wire.ReasonFull, wire.ReasonUnavailable, wire.ReasonDraining:
		return false
	}
	return true
}

// Underway is whose load has that number, among those that are not reported; false: none.
func (r *Residency) Underway(id LoadID) (model wire.ModelID, gpu wire.GPUID, gen Generation, ok bool) {
	on := wire.GPUID(id & (1<<gpuBits - 1))
	if int(on) >= len(r.gpus) {
		return 0, 0, 0, false
	}
	g := &r.gpus[on]
	for i := range g.undoneN {
		if o := &g.undone[i]; o.id == id {
			at := &r.places.all[o.place]
			return at.model, at.gpu, at.generation, true
		}
	}
	return 0, 0, 0, false
}

// A device may have fewer pages free than is reckoned here: it holds weights that nobody told of, or a model's take more than
// was said. Loads that count on such pages would be refused, each one. So what it says is compared with what is reckoned:
//
//	missing = pages free here + those of loads that it has not begun - what it says
//
// When it reports a load it has carried out all orders before that one, and begun none behind it; of the unloads that
// were ordered since it may have carried out some, so that it is known between two bounds. Reports may cross on their way: what
// is missing counts when two in a row say so, or when a load was refused for it. It is not loaded into, and the
// device is ordered to forget what has no name here. After a while it is forgotten: perhaps no load fits any more, and nothing
// would be heard of it.

// compare takes what a report says of the device's pages, when its load has been concluded. first: no load was ordered before it
// that is not reported.
func (r *Residency) compare(now mono.Time, on wire.GPUID, o *order, rep Report, first bool, out *Out) {
	if !rep.Tells || !first || !rep.OK && rep.Reason != wire.ReasonMemory {
		return
	}
	g := &r.gpus[on]
	most := g.free - rep.Free
	for i := range g.undoneN {
		most += int(r.places.all[g.undone[i].place].pages)
	}
	least := most - (g.unloaded - o.unloaded)
	sure := min(least, g.suspected)
	if !rep.OK {
		sure = least
	}
	g.suspected = max(0, least)
	switch {
	case most < g.missing:
		g.missing = max(0, most)
	case sure > g.missing:
		g.missing = sure
		out.Unloads = append(out.Unloads, Unload{Model: wire.ModelNone, GPU: on})
	case least < g.missing:
		return // neither seen again, nor disproved
	}
	g.doubted = now.Add(healing)
}

// room is how many pages of the GPU a load can have without anybody leaving.
func (g *gpu) room() int { return g.free - g.missing }

// believe forgets what GPUs miss, where that was said long ago.
func (r *Residency) believe(now mono.Time) {
	for id := range r.gpus {
		if g := &r.gpus[id]; g.missing > 0 && now >= g.doubted {
			g.missing, g.suspected = 0, 0
		}
	}
}

// Missed are the pages of the GPU that are reckoned free and, as its device says, are not.
func (r *Residency) Missed(gpu wire.GPUID) int {
	if int(gpu) >= len(r.gpus) {
		return 0
	}
	return r.gpus[gpu].missing
}
