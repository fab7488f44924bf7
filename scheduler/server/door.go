package server

import (
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// door keeps requests of pools whose backends a leader has asked, and that have not promised yet: an
// engine without a GPU would refuse them. They go on when the first GPU is seated, and are refused if
// none is left that could be.
type door struct {
	waiting atomic.Int64

	mu sync.Mutex // Guards what follows.
	of map[*pool][]heldSubmit
}

// doorMost bounds what waits.
const doorMost = 1 << 16

// keeps has a request wait; ok is false where there is no need any more.
func (d *door) keeps(p *pool, f *frontend, m *wire.Submit) (reason wire.Reason, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits := d.waiting.Add(1) // before it is looked: who seats a GPU looks at it after that
	switch {
	case p.alive.Load() > 0: // since it was looked; what comes later is not kept
		d.waiting.Add(-1)
		return wire.ReasonNone, false
	case waits > doorMost:
		d.waiting.Add(-1)
		return wire.ReasonFull, true
	}
	if d.of == nil {
		d.of = map[*pool][]heldSubmit{}
	}
	d.of[p] = append(d.of[p], heldSubmit{f, *m})
	return wire.ReasonNone, true
}

// opens returns those of pools for which ready says yes, and those that are too late.
func (d *door) opens(now mono.Time, ready func(*pool) bool) (all []heldSubmit) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for p, waiting := range d.of {
		goes := ready(p)
		left := waiting[:0]
		for _, w := range waiting {
			if goes || w.submit.Deadline <= now {
				all = append(all, w)
			} else {
				left = append(left, w)
			}
		}
		if d.of[p] = left; len(left) == 0 {
			delete(d.of, p)
		}
	}
	d.waiting.Add(-int64(len(all)))
	return all
}

// lookAtDoor lets those go on that wait for nothing any more.
func (s *Server) lookAtDoor(now mono.Time) {
	if s.door.waiting.Load() == 0 {
		return
	}
	s.release(s.door.opens(now, func(p *pool) bool { return p.alive.Load() > 0 || !s.awaits(p) }))
}
