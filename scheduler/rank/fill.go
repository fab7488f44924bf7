package rank

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fill is best effort: GPUs that nobody with a deadline wants for a while (package gaps).
//
// Invariant: a GPU is lent only where no batch is undone, in a Step that grants nothing, and the highest id first: low ids,
// which candidates are granted first, stay free.
type fill struct {
	gaps *gaps.Gaps // nil: nobody ever asked for best effort
	look mono.Time  // when to look for gaps again, while anybody waits
}

// waiting tells whether anybody could be lent a GPU.
func (f *fill) waiting() bool { return f.gaps != nil && f.gaps.Waiting() > 0 }

func (f *fill) forget(id wire.ModelID) {
	if f.gaps != nil {
		f.gaps.Remove(id)
	}
}

// ran: a model with deadlines was granted a GPU.
func (f *fill) ran(at mono.Time, slack mono.Dur) {
	if f.gaps != nil {
		f.gaps.Ran(at, slack)
	}
}

// ended: a GPU may be free.
func (f *fill) ended(gpu wire.GPUID, batch wire.BatchID) {
	if f.gaps != nil {
		f.gaps.Ended(gpu, batch)
		f.look = mono.Past
	}
}

// lost: a GPU goes, or comes.
func (f *fill) lost(gpu wire.GPUID) {
	if f.gaps != nil {
		f.gaps.RemoveGPU(gpu)
		f.look = mono.Past
	}
}

// SetWish tells that a model has requests of best effort, or has none any more. While a GPU is lent to it and no
// answer has come, it is void: the answer tells.
func (r *Rank) SetWish(w gaps.Wish) {
	f := &r.fill
	if f.gaps == nil {
		if w.Least == 0 {
			return
		}
		f.gaps = gaps.New()
		r.recall()
	}
	known := f.gaps.Known(w.Model)
	f.gaps.Set(w)
	if !known && w.Least > 0 {
		f.gaps.Put(w.Model, 0)
	}
	f.look = mono.Past
}

// recall tells the new gaps who has deadlines: each counts as if it had run in the latest span in which any has.
func (r *Rank) recall() {
	for _, m := range r.models {
		if m != nil && m.slack > 0 {
			r.fill.gaps.Ran(m.usage.Last(), m.slack)
		}
	}
}

// fillGaps lends GPUs.
func (r *Rank) fillGaps(now mono.Time, out *Out) {
	f := &r.fill
	if len(out.Grants) > 0 {
		f.look = mono.Past // those who were granted have their next candidates first
		return
	}
	f.look = now.Add(gaps.Patience)
	for f.waiting() {
		gpu, free, ok := r.gpus.LastIdle(math.MaxUint32)
		if !ok {
			return
		}
		begin := max(now, free)
		most, roomy := f.gaps.Most(now, r.gpus.Count(), r.gpus.Need())
		until := begin.Add(most)
		if !roomy {
			until = r.horizon(gpu, now, until)
		}
		id, ok := f.gaps.Pick(0, until.Sub(begin))
		if !ok {
			return
		}
		life, free := r.gpus.Lend(gpu)
		f.gaps.Lend(id, gpu)
		out.Fills = append(out.Fills, gaps.Grant{Model: id, GPU: wire.GPUID(gpu), Life: life, FreeAt: free, Until: until})
	}
}

// horizon is when a GPU is wanted at the latest that is idle now, up to until: the exec of the first candidate for which, with
// those that are due before it, there are too few others. Of more candidates than a Walk visits the last one counts so.
func (r *Rank) horizon(gpu uint32, now, until mono.Time) mono.Time {
	others := r.gpus.Idle() - 1
	walk := r.timers.Walk()
	for k := 1; ; k++ {
		id, _, ok := walk.Next()
		if !ok {
			return until
		}
		exec := max(now, r.models[id].candidate.Exec)
		if exec >= until {
			return until // not all later ones are due later, but for what orders take
		}
		if k == pq.WalkMax || k > others && !r.gpus.Spare(k, exec, gpu) {
			return exec
		}
	}
}

// Filled takes a model's reply to a GPU that it was lent.
func (r *Rank) Filled(a gaps.Answer) {
	f := &r.fill
	alive := r.gpus.Lent(a.Grant.GPU, a.Grant.Life, a.Batch, a.Exec, a.Until)
	f.gaps.Answer(&a, alive)
	if a.Batch != 0 || a.Least == 0 {
		f.look = mono.Past // else it would be lent the same again
	}
}
