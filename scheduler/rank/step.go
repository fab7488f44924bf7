package rank

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Step fires every timer that is due and appends the grants. Each turn of
// either loop takes a model out of a heap, so Step ends.
func (r *Rank) Step(now mono.Time, out *Out) {
	r.keep(now)
	r.leaveRoom(now)
	if r.rekey {
		r.order(now)
	}
	for r.timers.Len() > 0 {
		id, at := r.timers.Min()
		if at > int64(now) {
			break
		}
		r.onModelTimer(id, now, out)
	}
	r.onGPUTimer(now, out)
	if r.early.Len() > 0 {
		r.onKeptGPUTimer(now, out)
	}
	if r.fill.Waiting() {
		r.fillGaps(now, out)
	}
}

// onModelTimer: the candidate may start; find it a GPU or let it wait ready. An early
// one is offered to the GPUs that are kept anyway, and waits for one of them until deferral
// alone would start it: then its timer fires again.
func (r *Rank) onModelTimer(id uint32, now mono.Time, out *Out) {
	r.timers.Remove(id)
	r.early.Remove(id)
	m := r.models[id]
	c := &m.candidate
	if !m.held {
		if gpu, ok := r.gpus.FirstBy(c.Deferred()); ok && gpu < r.room.of(m) {
			r.grant(id, gpu, true, now, out)
			return
		}
		r.wait(id, m, now)
		return
	}
	if gpu, ok := r.gpus.FirstBy(c.Exec); ok && gpu < min(r.kept, r.room.of(m)) {
		r.grant(id, gpu, true, now, out)
		return
	}
	m.held = false
	if int(r.kept) < r.gpus.Len() {
		r.early.Set(id, r.key(m, now))
		r.timers.Set(id, int64(c.Deferred().Add(-c.Delay)))
		return
	}
	r.wait(id, m, now)
}

// onGPUTimer: while the GPU that is free first is within reach of an order
// sent now, the ready candidate that is due first takes it. Those before it that
// this GPU cannot serve in time leave: their models form smaller ones at
// that very instant (batching.Model.NextWake).
func (r *Rank) onGPUTimer(now mono.Time, out *Out) {
	for {
		waiting, below, ok := r.first(now)
		if !ok {
			return
		}
		id, _ := waiting.Min()
		waiting.Remove(id)
		if free := r.gpus.SoonestBelow(below); r.models[id].candidate.Latest >= free {
			gpu, _ := r.gpus.FirstBy(free) // below it: none of a smaller id is free earlier
			r.grant(id, gpu, false, now, out)
		}
	}
}

// onKeptGPUTimer is the same for early candidates and the GPUs that are kept.
func (r *Rank) onKeptGPUTimer(now mono.Time, out *Out) {
	for r.early.Len() > 0 {
		free := r.gpus.SoonestBelow(r.kept)
		id, _ := r.early.Min()
		if free == mono.Never || free.Add(-r.models[id].candidate.Delay) > now {
			return
		}
		r.early.Remove(id)
		if r.models[id].candidate.Latest >= free {
			gpu, _ := r.gpus.FirstBy(free) // below r.kept: none of a smaller id is free earlier
			r.timers.Remove(id)
			r.grant(id, gpu, false, now, out)
		}
	}
}

func (r *Rank) grant(id, gpu uint32, idle bool, now mono.Time, out *Out) {
	m := r.models[id]
	invariants.Check(!m.granting, "rank: a grant to a model that has one under way")
	m.granting = true
	out.Grants = r.gpus.Grant(wire.ModelID(id), &m.usage, &m.candidate, gpu, idle, now, out.Grants)
	out.Grants[len(out.Grants)-1].Others = r.gpus.Idle()
}

// NextWake is when the next timer fires; Never when none is set.
func (r *Rank) NextWake() mono.Time {
	wake := mono.Never
	if r.timers.Len() > 0 {
		_, at := r.timers.Min()
		wake = mono.Time(at)
	}
	if r.ready.Len() > 0 {
		if free := r.gpus.Soonest(); free != mono.Never {
			id, _ := r.ready.Min()
			wake = min(wake, free.Add(-r.models[id].candidate.Delay))
		}
	}
	if r.long.Len() > 0 {
		if free := r.gpus.SoonestBelow(r.room.below); free != mono.Never {
			id, _ := r.long.Min()
			wake = min(wake, free.Add(-r.models[id].candidate.Delay))
		}
	}
	if r.early.Len() > 0 {
		if free := r.gpus.SoonestBelow(r.kept); free != mono.Never {
			id, _ := r.early.Min()
			wake = min(wake, free.Add(-r.models[id].candidate.Delay))
		}
	}
	if r.fill.Waiting() && r.gpus.Idle() > 0 {
		wake = min(wake, r.fill.Look)
	}
	return wake
}
