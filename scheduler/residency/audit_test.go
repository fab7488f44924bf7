package residency

import (
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// audit reckons everything that is kept incrementally anew, and says what differs: invariants
// 1, 2, and the books that 7 rests on.
func (r *Residency) audit() error {
	for id := range r.models {
		if err := r.auditModel(wire.ModelID(id), &r.models[id]); err != nil {
			return fmt.Errorf("model %d: %w", id, err)
		}
	}
	orphans := 0
	for p := range r.places.all {
		if at := &r.places.all[p]; at.pages > 0 && !at.owned {
			orphans++
		}
	}
	if orphans != r.orphans {
		return fmt.Errorf("%d places of models that were removed, it counts %d", orphans, r.orphans)
	}
	for id := range r.gpus {
		if g := &r.gpus[id]; g.present {
			if err := r.auditGPU(wire.GPUID(id), g); err != nil {
				return fmt.Errorf("GPU %d: %w", id, err)
			}
		} else if r.loaders.Has(uint32(id)) || g.oldest != none || g.undoneN != 0 {
			return fmt.Errorf("GPU %d is gone and has a loader, models or loads", id)
		}
	}
	return nil
}

func (r *Residency) auditModel(id wire.ModelID, m *model) error {
	if !m.known {
		if m.waiting.Len() > 0 || m.holders != none || r.board.has(uint32(id)) || r.fates.Has(uint32(id)) {
			return fmt.Errorf("not known, with requests, holders or plans")
		}
		return nil
	}
	demand, lateWork, late := mono.Dur(0), mono.Dur(0), 0
	for _, e := range m.waiting.Entries() {
		demand += mono.Dur(e.Value)
		if mono.Time(e.Key) < m.horizon {
			lateWork += mono.Dur(e.Value)
			late++
		}
	}
	if demand != m.demand || lateWork != m.lateWork || late != m.late {
		return fmt.Errorf("d %v, late %v of %d; the queue has %v, %v of %d", m.demand, m.lateWork, m.late, demand, lateWork, late)
	}
	shares, copies, ready, before := mono.Dur(0), 0, 0, -1
	for p := m.holders; p != none; p = r.places.all[p].next {
		at := &r.places.all[p]
		if at.model != id || int(at.gpu) <= before || !at.owned || at.share < 0 {
			return fmt.Errorf("place %+v after GPU %d", *at, before)
		}
		before = int(at.gpu)
		shares += at.share
		copies++
		if at.state == resident {
			ready++
		}
	}
	switch {
	case copies != m.copies || ready != m.ready:
		return fmt.Errorf("%d copies, %d ready; its places are %d, %d", m.copies, m.ready, copies, ready)
	case copies > 0 && shares != m.demand:
		return fmt.Errorf("shares %v of d %v", shares, m.demand)
	case copies == 0 && r.count > 0 && demand > lateWork && !r.board.has(uint32(id)):
		return fmt.Errorf("nobody has it, requests could be helped, and it is not on the board")
	case copies == 0 && r.count > 0 && late < m.waiting.Len() && !r.fates.Has(uint32(id)):
		return fmt.Errorf("nobody has it, and nobody looks at its requests' fate")
	}
	return nil
}

func (r *Residency) auditGPU(id wire.GPUID, g *gpu) error {
	load, used, loose, idle, older, held := idleLoad, 0, 0, 0, none, 0
	oldest := mono.Never // of a copy that could go, and that nobody waits for
	spares, recent := none, false
	for p := g.oldest; p != none; p = r.places.all[p].newer {
		at := &r.places.all[p]
		if at.gpu != id || at.older != older {
			return fmt.Errorf("place %+v behind %d", *at, older)
		}
		older = p
		held++
		if at.used != mono.Past && r.isLoose(p) && r.isIdle(p) {
			oldest = min(oldest, at.used)
		}
		if at.used == mono.Past {
			if spares = p; recent {
				return fmt.Errorf("place %+v of best effort behind those of others", *at)
			}
		} else {
			recent = true
		}
		load += at.share
		used += int(at.pages)
		if at.state == resident && at.uses == 0 && !r.stays(at) {
			loose += int(at.pages)
			if !at.owned || r.isIdle(p) {
				idle += int(at.pages)
			}
		}
	}
	look, ok := r.Memory(id)
	switch {
	case !ok || look.Held != held || look.Oldest != oldest || look.Free != g.free || look.Loading != g.undoneN:
		return fmt.Errorf("a look says %+v; %d models are there, the oldest that could go of %v", look, held, oldest)
	case g.spares != spares:
		return fmt.Errorf("the last of best effort is %d, the list says %d", g.spares, spares)
	case g.newest != older:
		return fmt.Errorf("newest %d, the list ends with %d", g.newest, older)
	case g.load != load:
		return fmt.Errorf("l %v, shares say %v", g.load, load)
	case g.free < 0 || g.free+used != g.pages:
		return fmt.Errorf("%d pages free, %d used, of %d", g.free, used, g.pages)
	case g.loose != loose || g.idle != idle:
		return fmt.Errorf("loose %d, idle %d; its models say %d, %d", g.loose, g.idle, loose, idle)
	case g.undoneN > r.cfg.Outstanding:
		return fmt.Errorf("%d loads", g.undoneN)
	case r.loaders.Has(uint32(id)) != (g.undoneN < r.cfg.Outstanding):
		return fmt.Errorf("%d loads, among the loaders: %v", g.undoneN, r.loaders.Has(uint32(id)))
	}
	return nil
}
