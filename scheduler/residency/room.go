package residency

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sacrificesMax is for how many candidates of a choice models with requests may make room, to look
// through a GPU for them takes longest. A candidate that is worth less finds fewer.
const sacrificesMax = 2

// host finds a GPU for a model, by BySaving, and who makes room there.
//
// In this order: the smallest id that has free pages; then the GPU whose least recently used model was used
// longest ago. Both among GPUs whose loader is open, where the load would end in time, and with loads within
// the capacity, what the model adds to it included; if there is none, the one with the least load.
//
// A further copy goes to no GPU that has a capacity's work of its own: it would wait there as long, and who makes room
// comes back. (In the hourly spike of bench/paper's figure 8 each model's demand was more than its holders do, and four loads of
// five were copies between GPUs that were all full.)
//
// Rejected: the smallest id that has room in loader and load, whatever its pages (Config.Packed). The models of all
// GPUs would be loaded by turns into the first one's memory, with that of the others empty.
func (r *Residency) host(now mono.Time, id wire.ModelID, sacrifices *int) (wire.GPUID, bool) {
	m := &r.models[id]
	length := r.loadTime(now, m) + r.slackOf(now)
	last := mono.Time(m.waiting.At(m.waiting.Len() - 1).Key)
	p := r.priority(m, m.demand-m.lateWork)
	var best, crowded seat
	soonest, tight := mono.Never, false
	skip := m.holders
	for i := range r.gpus {
		g := &r.gpus[i]
		if skip != none && r.places.all[skip].gpu == wire.GPUID(i) {
			skip = r.places.all[skip].next
			continue
		}
		if !g.present || g.pages < int(m.pages) {
			continue
		}
		end := max(now, g.until()).Add(length)
		soonest = min(soonest, end)
		if end > last || !r.open(now, g) || r.lingers(id, g) || m.copies > 0 && g.load >= r.cfg.Capacity {
			continue
		}
		s := seat{id: wire.GPUID(i), ok: true, roomy: g.load+p <= r.cfg.Capacity, load: g.load, free: g.room() >= int(m.pages), used: mono.Past}
		if g.oldest != none && !s.free && !r.cfg.Packed {
			s.used = r.leastRecentUse(g)
		}
		s.free = s.free || r.cfg.Packed
		if g.room()+g.idle >= int(m.pages) {
			best.improve(s)
			continue
		}
		tight = true
		if g.room()+g.loose >= int(m.pages) {
			crowded.improve(s)
		}
	}
	if tight && !best.ok {
		r.tight = now
	}
	if best.ok && r.makeRoom(&r.gpus[best.id], int(m.pages), 0, false) {
		return best.id, true
	}
	if crowded.ok && *sacrifices > 0 {
		*sacrifices--
		return crowded.id, r.makeRoom(&r.gpus[crowded.id], int(m.pages), r.board.first().worth, true)
	}
	if m.copies == 0 && last < soonest {
		r.fates.Set(uint32(id), int64(now)) // no loader can end in time, those that are not open included
	}
	return 0, false
}

// leastRecentUse is when the GPU's least recently used model was used, but for those that best effort alone uses and runs now.
func (r *Residency) leastRecentUse(g *gpu) mono.Time {
	p := g.oldest
	for next := r.places.all[p].newer; next != none && r.places.all[p].used == mono.Past && r.places.all[p].uses > 0; next = r.places.all[p].newer {
		p = next
	}
	return r.places.all[p].used
}

// seat is a GPU that could take a model.
type seat struct {
	id              wire.GPUID
	ok, roomy, free bool
	load            mono.Dur
	used            mono.Time // its least recently used model
}

// improve takes the better of two seats; s has the larger id.
func (best *seat) improve(s seat) {
	b := *best
	switch {
	case !b.ok:
	case b.roomy != s.roomy:
		if b.roomy {
			return
		}
	case !b.roomy:
		if b.load <= s.load {
			return
		}
	case b.free != s.free:
		if b.free {
			return
		}
	case b.used <= s.used:
		return
	}
	*best = s
}

// makeRoom finds who is to leave the GPU so that so many pages are free: victims. Models that are
// loading, held or in use stay. Those without requests go first, least recently used first, but by
// ByPriority, which goes by use alone. Then others may be sacrificed: least recently used first again;
// by BySaving the least worth first, and only those worth less, once they are gone, than what comes: else they
// would be the next to come back. false: there are not enough.
func (r *Residency) makeRoom(g *gpu, pages int, worth float64, sacrifice bool) bool {
	r.victims = r.victims[:0]
	short := pages - g.room()
	if r.cfg.Rule != ByPriority {
		short = r.leastRecent(g, short, true)
	}
	switch {
	case short <= 0 || !sacrifice:
	case r.cfg.Rule == BySaving:
		short = r.leastWorth(g, short, worth)
	default:
		short = r.leastRecent(g, short, false)
	}
	if short > 0 {
		return false
	}
	r.trim(short)
	return true
}

// trim spares victims that are needless: so many pages are short, 0 or fewer.
func (r *Residency) trim(short int) {
	// A large one that came last can make one before it needless.
	for i := len(r.victims) - 2; i >= 0; i-- {
		if pages := int(r.places.all[r.victims[i]].pages); short+pages <= 0 {
			short += pages
			r.victims = slices.Delete(r.victims, i, i+1)
		}
	}
}

// leastRecent adds victims, least recently used first, until no page is short; it is how many are. Of models
// without requests only, or of any that are not victims yet.
func (r *Residency) leastRecent(g *gpu, short int, idle bool) int {
	known := len(r.victims) // those without requests, in the same order
	for p := g.oldest; p != none && short > 0; p = r.places.all[p].newer {
		if !r.isLoose(p) || idle && !r.isIdle(p) || slices.Contains(r.victims[:known], p) {
			continue
		}
		r.victims = append(r.victims, p)
		short -= int(r.places.all[p].pages)
	}
	return short
}

// leastWorth adds victims with requests, the least worth first and all worth less than what comes, until no
// page is short; it is how many are.
func (r *Residency) leastWorth(g *gpu, short int, worth float64) int {
	r.wanted = r.wanted[:0]
	for p := g.oldest; p != none; p = r.places.all[p].newer {
		if r.isLoose(p) && !r.isIdle(p) {
			if w := r.worthWithout(p); w < worth {
				r.wanted = append(r.wanted, sacrifice{p, w})
			}
		}
	}
	for short > 0 && len(r.wanted) > 0 {
		least := 0
		for i, s := range r.wanted {
			if s.worth < r.wanted[least].worth {
				least = i
			}
		}
		p := r.wanted[least].place
		r.wanted = slices.Delete(r.wanted, least, least+1)
		r.victims = append(r.victims, p)
		short -= int(r.places.all[p].pages)
	}
	return short
}

// sacrifice is a place and what it would be worth to load its model again.
type sacrifice struct {
	place int32
	worth float64
}

// isLoose: nothing keeps it from being unloaded.
func (r *Residency) isLoose(p int32) bool {
	at := &r.places.all[p]
	return at.state == resident && at.uses == 0 && at.owned && !r.stays(at)
}

// isIdle: its model has no requests.
func (r *Residency) isIdle(p int32) bool {
	return r.models[r.places.all[p].model].waiting.Len() == 0
}

// worthWithout is what it would be worth to load the model of a place again, were it not there.
func (r *Residency) worthWithout(p int32) float64 {
	m := &r.models[r.places.all[p].model]
	return r.worth(r.priorityWithout(p), m.load.P99())
}
