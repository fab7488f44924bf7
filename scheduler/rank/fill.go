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
type fill struct{ gaps.Offer }

// SetWish tells that a model has requests of best effort, or has none any more. While a GPU is lent to it and no
// answer has come, it is void: the answer tells.
func (r *Rank) SetWish(w gaps.Wish) {
	f := &r.fill
	if f.Gaps == nil {
		if w.Least == 0 {
			return
		}
		f.Gaps = gaps.New()
		r.recall()
	}
	known := f.Gaps.Known(w.Model)
	f.Gaps.Set(w)
	if !known && w.Least > 0 {
		f.Gaps.Put(w.Model, 0)
	}
	f.Look = mono.Past
}

// recall tells the new gaps who has deadlines: each counts as if it had run in the latest span in which any has.
func (r *Rank) recall() {
	for _, m := range r.models {
		if m != nil && m.slack > 0 {
			r.fill.Gaps.Ran(m.usage.Last(), m.slack)
		}
	}
}

// fillGaps lends GPUs.
func (r *Rank) fillGaps(now mono.Time, out *Out) {
	f := &r.fill
	if len(out.Grants) > 0 {
		f.Look = mono.Past // those who were granted have their next candidates first
		return
	}
	f.Look = now.Add(gaps.Patience)
	for f.Waiting() {
		gpu, free, ok := r.gpus.LastIdle(math.MaxUint32)
		if !ok {
			return
		}
		begin := max(now, free)
		most, roomy := f.Gaps.Most(now, r.gpus.Count(), r.gpus.Need())
		until := begin.Add(most)
		if !roomy {
			until = r.horizon(gpu, now, until)
		}
		id, ok := f.Gaps.Pick(0, until.Sub(begin))
		if !ok {
			return
		}
		life, free := r.gpus.Lend(gpu)
		f.Gaps.Lend(id, gpu)
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
	f.Gaps.Answer(&a, alive)
	if a.Batch != 0 || a.Least == 0 {
		f.Look = mono.Past // else it would be lent the same again
	}
}
