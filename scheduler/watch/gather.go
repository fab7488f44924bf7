package watch

import (
	"cmp"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gathered is the batches of a pool around a request's time.
type gathered struct {
	all  []*Ran
	gpus []row
	loads
}

// row is a GPU's batches, in the order of their starts.
type row struct {
	gpu wire.GPUID
	ran []*Ran
}

// around is how long before the request's arrival a batch may have been sent that still matters.
const around = 10 * mono.Second

// gather finds the batches that were sent up to the request's end, and their reports.
func gather(h *History, s *State, t *Story) *gathered {
	g := &gathered{loads: loads{at: map[wire.GPUID]bool{}, from: map[wire.GPUID]mono.Time{}, since: h.From()}}
	byID := map[wire.BatchID]*Ran{}
	var d decoder
	for i := range h.n {
		p := h.at(i)
		if p.to < t.Request.Arrival.Add(-around) && !t.paged { // weights stay for long
			continue
		}
		events := d.decode(p, 1<<Batch|1<<Done|1<<GPU|1<<Load|1<<Loaded|1<<Evict)
		for k := range events {
			e := &events[k]
			if e.Pool != t.Pool {
				continue
			}
			if e.At >= t.Request.Arrival.Add(-around) {
				g.take(e, s, max(t.Ended, t.Request.Deadline), byID)
			}
			if t.paged {
				g.loads.take(e, t, s)
			}
		}
	}
	g.rows(s.Pool(t.Pool))
	if t.paged {
		g.gpus = g.holders(g.gpus)
	}
	return g
}

// take takes an event: a batch that was sent by until, its report, or the end of a GPU.
func (g *gathered) take(e *Event, s *State, until mono.Time, byID map[wire.BatchID]*Ran) {
	switch {
	case e.Kind == Batch && e.At <= until:
		r := &Ran{Batch: e.Batch, Model: e.Model, Name: s.Name(e.Model), GPU: e.GPU, Size: int(e.Size), Sent: e.At, Due: e.Due, Exec: e.Exec, Until: e.Until}
		for k := range e.Requests {
			if d := e.Requests[k].Deadline; r.Earliest == 0 || d < r.Earliest {
				r.Earliest = d
			}
		}
		g.all = append(g.all, r)
		byID[e.Batch] = r
	case e.Kind == Done:
		if r := byID[e.Batch]; r != nil && !r.Reported {
			r.Start, r.End, r.Fetch, r.Reported = e.Exec, e.Until, e.Fetch, true
		}
	case e.Kind == GPU && e.Info.Gone: // what ran there was cut
		for _, r := range g.all {
			if r.GPU == e.GPU && !r.Reported && r.Until > e.At {
				r.Until = max(r.Exec, e.At)
			}
		}
	}
}

// rows sorts the batches by GPU and start, with a row for each GPU that is there.
func (g *gathered) rows(p *PoolState) {
	if p != nil {
		for i := range p.Rows {
			if p.Rows[i].Present {
				g.row(wire.GPUID(i))
			}
		}
	}
	for _, r := range g.all {
		w := g.row(r.GPU)
		w.ran = append(w.ran, r)
	}
	for i := range g.gpus {
		ran := g.gpus[i].ran
		slices.SortStableFunc(ran, func(a, b *Ran) int { return cmp.Compare(a.began(), b.began()) })
		for k := 1; k < len(ran); k++ {
			ran[k].beforeRan, ran[k].before, ran[k].beforePlanned = ran[k-1], ran[k-1].to(), ran[k-1].Until
		}
	}
}

func (g *gathered) row(id wire.GPUID) *row {
	at, ok := slices.BinarySearchFunc(g.gpus, id, func(w row, id wire.GPUID) int { return cmp.Compare(w.gpu, id) })
	if !ok {
		g.gpus = slices.Insert(g.gpus, at, row{gpu: id})
	}
	return &g.gpus[at]
}

func (g *gathered) find(id wire.BatchID) *Ran {
	at := slices.IndexFunc(g.all, func(r *Ran) bool { return r.Batch == id })
	if at < 0 {
		return nil
	}
	return g.all[at]
}

// had is what each GPU did from when the request could have started until it was given up.
func (g *gathered) had(t *Story) (out []Had) {
	end := max(t.Last, t.First)
	for i := range g.gpus {
		w := &g.gpus[i]
		h := Had{GPU: w.gpu, FreeAt: max(t.First, g.from[w.gpu])}
		for _, r := range w.ran {
			if r.to() <= h.FreeAt {
				continue
			}
			if r.from() <= h.FreeAt {
				h.FreeAt = r.to()
			}
			if r.from() <= end {
				h.Ran = append(h.Ran, r)
			}
		}
		out = append(out, h)
	}
	return out
}

// holder is who had a GPU at the last instant at which the request could have started; of one that
// was free before that, who took it then. Nil: it was free all the time.
func holder(ran []*Ran, last, free mono.Time) (had *Ran) {
	for _, r := range ran {
		switch {
		case r.from() > last:
		case free <= last:
			if r.from() >= free && had == nil {
				had = r
			}
		case r.to() > last && had == nil || had == nil && r.to() >= free:
			had = r
		}
	}
	return had
}

// lostTo is the batch that was given a GPU while the request waited: of a request that was shed
// the one that it was shed for, else the last that could have been it.
func (g *gathered) lostTo(t *Story) (lost *Ran) {
	for _, r := range g.all {
		switch {
		case r.Sent < t.came() || r.Sent > t.Ended:
		case t.paged && !g.at[r.GPU]: // it could not have been that one
		case t.Reason == wire.ReasonShed && (r.Model != t.Model || r.Sent != t.Ended):
		case t.Reason != wire.ReasonShed && r.Exec > t.Last:
		case lost == nil || r.Sent >= lost.Sent:
			lost = r
		}
	}
	return lost
}
