package paged

import (
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Weights for best effort. A model that is on no GPU, or has had more waiting than its GPUs serve for a while, is loaded where nobody
// with a deadline is harmed:
//
//   - The loader has nothing to do, and nobody with a deadline wants a load. Who comes next may: so the load takes half of what
//     the loads of late for deadlines had to spare, unless another GPU could begin any load.
//   - The pages are free, or nobody with a deadline has counted on them for a minute (residency.Spare).
//   - The GPU is idle, the highest id first, and the gap there is long enough for it.
//
// Where other best effort has all pages, and runs, it gives way by turns: once a model has had a slice more of GPU time than the
// one that waits, its weights go when its batch has ended. So none waits for ever for those that never pause.
const (
	// backlog is how long a model has requests waiting without a break before it is loaded a further time. It is what a GPU is to do
	// what waits for it in (residency.Config.Capacity).
	backlog = 100 * mono.Millisecond
	// furnishRest is from a look that found nothing to the next.
	furnishRest = 10 * mono.Millisecond
	// furnishTries bounds the models for which a look finds nothing.
	furnishTries = 4
	// loadLeast: a load that is no longer delays nobody more than loads for deadlines do each other (residency.Config.Ahead).
	loadLeast = 5 * mono.Millisecond
	// sliceLeast and sliceLoads: a slice is so long, and at least so many times what the load takes, for the GPU may stand still for it.
	sliceLeast = 100 * mono.Millisecond
	sliceLoads = 8
)

// lacks says from when on a model that begins to wait lacks weights.
func (p *Paged) lacks(now mono.Time, id wire.ModelID) {
	from := now
	for _, k := range p.models[id].places {
		from = max(from, max(now, k.from).Add(backlog))
	}
	p.fill.Gaps.Lack(id, from)
}

// notice notes what the loads that were just ordered for requests with deadlines had to spare. A pinned model's, which nobody waits
// for, had all the time there is.
func (p *Paged) notice() {
	for i := range p.effects.Loads {
		l := &p.effects.Loads[i]
		if _, waiting := p.residency.Demand(l.Model); waiting > 0 && !l.Spare {
			p.fill.loads.Add(p.now, p.models[l.Model].patience-p.residency.LoadTime(l.Model))
		}
	}
}

// furnish loads for those who lack weights.
func (p *Paged) furnish(out *Out) {
	f := &p.fill
	f.counted = false
	for tries := furnishTries; p.now >= f.rest; {
		id, from, ok := f.Gaps.Lacking()
		if !ok || from > p.now {
			return
		}
		if gpu, ok := p.seat(id); ok {
			p.load(id, gpu, out)
			continue
		}
		f.Gaps.Lack(id, max(p.now.Add(backlog), p.residency.Healed(id))) // others first
		if tries--; tries == 0 {
			f.rest = p.now.Add(furnishRest)
		}
	}
}

// swap loads who lacks weights for longest onto a GPU whose batch of best effort has just ended: if there is another at once,
// that is the only time at which its model can make room.
func (p *Paged) swap(out *Out) {
	f := &p.fill
	f.counted = false
	for _, gpu := range f.freed {
		id, _, ok := f.Gaps.Lacking()
		if !ok {
			return
		}
		if len(p.models[id].places) == 0 && p.gpus.Present(wire.GPUID(gpu)) && p.seatOn(id, gpu) != residency.NoSeat {
			p.load(id, gpu, out)
		}
	}
}

func (p *Paged) load(id wire.ModelID, gpu uint32, out *Out) {
	p.residency.LoadSpare(p.now, id, wire.GPUID(gpu), &p.fill, &p.effects)
	p.apply(out)
	p.fill.counted = false
}

// seat is the GPU that takes a model with the least harm: an idle one before one that best effort has, and the highest id of those alike.
func (p *Paged) seat(id wire.ModelID) (best uint32, ok bool) {
	most := 0
	for gpu := p.gpus.Len() - 1; gpu >= 0 && most < worth(true, residency.SeatFree); gpu-- {
		if n := worth(p.gpus.IsIdle(uint32(gpu)), p.seatOn(id, uint32(gpu))); n > most {
			best, most = uint32(gpu), n
		}
	}
	return best, most > 0
}

// worth is a seat's, less 1 for a GPU that is not idle: who makes room matters more where best effort uses it, and less where nobody does.
func worth(idle bool, s residency.Seat) int {
	switch {
	case s == residency.NoSeat:
		return 0
	case s == residency.SeatTaken && !idle:
		return 1
	case s == residency.SeatTaken:
		return 2
	case !idle:
		return int(s) + 1 // 3, 4
	}
	return int(s) + 3 // 5, 6
}

// seatOn is what it takes to load the model there, if it would find a gap. A further copy takes nothing from others, and no GPU that
// is not idle.
func (p *Paged) seatOn(id wire.ModelID, gpu uint32) residency.Seat {
	f, further := &p.fill, len(p.models[id].places) > 0
	idle := p.gpus.IsIdle(gpu)
	if !idle && (further || !f.Gaps.Lent(gpu)) {
		return residency.NoSeat
	}
	f.asks, f.slice = id, max(sliceLeast, sliceLoads*p.residency.LoadTime(id))
	seat := p.residency.Spare(p.now, id, wire.GPUID(gpu), f)
	if seat == residency.NoSeat || further && seat == residency.SeatTaken || !p.fits(id, gpu, idle) {
		return residency.NoSeat
	}
	if p.residency.LoadTime(id) > max(loadLeast, f.loads.Least(p.now)/2) && !p.openings().Beside(wire.GPUID(gpu)) {
		return residency.NoSeat
	}
	return seat
}

// openings are those of residency. A look asks for each GPU there is: it walks over them once, and again when it has loaded.
func (p *Paged) openings() residency.Openings {
	if f := &p.fill; !f.counted {
		f.openings, f.counted = p.residency.Openings(), true
	}
	return p.fill.openings
}

// fits tells whether the model's shortest batch fits into the gap there is on a GPU, or, where best effort runs, may be as long.
func (p *Paged) fits(id wire.ModelID, gpu uint32, idle bool) bool {
	least := p.fill.Gaps.Least(id)
	if idle {
		begin, until := p.gap(gpu, p.gpus.FreeAt(gpu))
		return until.Sub(begin) >= least
	}
	most, _ := p.fill.Gaps.Most(p.now, p.gpus.Count(), p.Need(p.now))
	return most >= least
}

// Yields implements residency.Peers: it has had a slice more.
func (f *fill) Yields(id wire.ModelID) bool { return f.Gaps.Ahead(id, f.asks) >= f.slice }

// wake is when there is something to look for; idle: some GPU is.
func (f *fill) wake(idle bool) mono.Time {
	if !f.Waiting() {
		return mono.Never
	}
	at := mono.Never
	if _, from, ok := f.Gaps.Lacking(); ok {
		at = max(from, f.rest)
	}
	if idle {
		at = min(at, f.Look)
	}
	return at
}
