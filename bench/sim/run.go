package sim

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// run is a batch at its GPU, and then until the scheduler has its report.
//
// Invariant: a request counts once. The scheduler's word decides which time: a
// batch counts when its report has come, and one that is cut before is lost,
// also where it has ended and only its report was under way. The scheduler has
// queued its requests again, and answers them, or drops them, later.
//
// Rejected: to count a batch where it ends, and to pass over what becomes of its
// requests afterwards. The first answer is what a frontend would take, but a
// policy that preempts would then serve requests by batches that it gave up.
type run struct {
	Execution
	until mono.Time // its planned end
}

// launch sends a batch to its GPU. It starts when it was planned to, but not
// before its order and inputs are there and what was sent before has ended.
func (d *driver) launch(k *policy.Dispatch) {
	g := &d.gpus[k.GPU]
	if !g.alive {
		return // lost with the GPU: the scheduler will learn of it
	}
	r := run{Execution: Execution{Batch: k.Batch, Model: k.Model, GPU: k.GPU, Start: max(k.Exec, d.now), Kept: true}, until: k.Until}
	if net := &d.cfg.Network; d.wired {
		fetch := net.Data.draw(d.net) * mono.Dur(len(k.Requests))
		r.Fetch = net.Ctrl.draw(d.net) + fetch
		r.Start = max(r.Start, d.now.Add(r.Fetch))
	}
	if n := len(g.runs); n > 0 {
		r.Start = max(r.Start, g.runs[n-1].End)
	}
	r.Start = d.ready(k, r.Start)
	g.pauses.forget(d.now)
	r.Start = g.pauses.after(r.Start)
	r.End = g.pauses.stretch(r.Start, d.length(k))
	if n := len(g.spare); n > 0 {
		r.Requests, g.spare = g.spare[n-1][:0], g.spare[:n-1]
	}
	r.Requests = append(r.Requests, k.Requests...)
	g.runs = append(g.runs, r)
	if len(g.runs) == 1 {
		d.armGPU(k.GPU)
	}
}

// length is how long a batch takes: as planned, with what Jitter adds. What the policy
// plans with may be learnt and longer (paging, errors): the profile counts then.
func (d *driver) length(k *policy.Dispatch) mono.Dur {
	planned := k.Until.Sub(k.Exec)
	if j := &d.cfg.Jitter; d.pager != nil || !j.Errors.none() {
		planned = j.Errors.length(d.cfg.Models[k.Model].Profile.Latency(len(k.Requests)), d.exec)
	}
	return d.cfg.Jitter.stretch(planned, d.exec)
}

func (d *driver) armGPU(id wire.GPUID) {
	if g := &d.gpus[id]; len(g.runs) > 0 {
		d.ends.Set(uint32(id), int64(g.runs[0].End))
	} else {
		d.ends.Remove(uint32(id))
	}
}

// complete ends the batches that are through by now.
func (d *driver) complete() {
	for d.ends.Len() > 0 {
		id, at := d.ends.Min()
		if at > int64(d.now) {
			return
		}
		g := &d.gpus[id]
		d.ended = g.runs[0]
		r := &d.ended
		g.runs = slices.Delete(g.runs, 0, 1)
		d.armGPU(r.GPU)
		d.busy(r)
		d.idle(r)
		r.Answered = r.End
		if !d.wired {
			d.keep(r)
			d.done(r.Batch, r.End.Sub(r.Start), r.End)
			d.overran(r)
			continue
		}
		r.Answered = r.End.Add(d.cfg.Network.Ctrl.draw(d.net))
		g.told = append(g.told, *r)
		d.mail.send(message{at: d.now.Add(d.cfg.Network.Ctrl.draw(d.net)), kind: reported, gpu: r.GPU, batch: r.Batch, took: r.End.Sub(r.Start), end: r.End})
	}
}

// done tells the scheduler.
func (d *driver) done(batch wire.BatchID, took mono.Dur, end mono.Time) {
	if d.timed != nil {
		d.timed.Took(batch, took)
	}
	d.sched.Done(d.now, batch, end, &d.out)
}

// report hands the scheduler the end of a batch. It ignores one that it gave up.
func (d *driver) report(m *message) {
	g := &d.gpus[m.gpu]
	if i := find(g.told, m.batch); i >= 0 {
		d.keep(&g.told[i])
		d.overran(&g.told[i])
		g.told = slices.Delete(g.told, i, i+1)
	}
	d.done(m.batch, m.took, m.end)
}

// preempt ends a batch whose requests the scheduler has queued again.
func (d *driver) preempt(p *policy.Preempt) {
	g := &d.gpus[p.GPU]
	if i := find(g.runs, p.Batch); i >= 0 {
		d.cut(p.GPU, i)
	} else if i := find(g.told, p.Batch); i >= 0 {
		d.disown(p.GPU, i)
	}
}

func find(runs []run, id wire.BatchID) int {
	return slices.IndexFunc(runs, func(r run) bool { return r.Batch == id })
}

// cut ends run i of a GPU now; its work is lost.
func (d *driver) cut(id wire.GPUID, i int) {
	g := &d.gpus[id]
	r := g.runs[i]
	g.runs = slices.Delete(g.runs, i, i+1)
	d.armGPU(id)
	r.End = max(d.now, r.Start)
	d.busy(&r)
	d.idle(&r)
	d.waste(&r)
}

// disown gives up a batch that has ended: told[i] of a GPU.
func (d *driver) disown(id wire.GPUID, i int) {
	g := &d.gpus[id]
	r := g.told[i]
	g.told = slices.Delete(g.told, i, i+1)
	d.waste(&r)
}

// waste counts the work of a batch that is lost.
func (d *driver) waste(r *run) {
	r.Kept = false
	d.result.Lost += d.within(r)
	d.observe(r)
}

// keep counts a batch and its requests.
func (d *driver) keep(r *run) {
	if d.within(r) > 0 {
		d.result.Batches++
		d.size(len(r.Requests))
	}
	slo, counts := d.cfg.Models[r.Model].SLO, &d.result.Models[r.Model]
	for i := range r.Requests {
		q := &r.Requests[i]
		d.answered(max(d.now, r.Answered), int(r.Model))
		if !d.counted(q.Arrival) {
			continue
		}
		if r.Answered <= q.Arrival.Add(slo) {
			counts.Served++
		} else {
			counts.Late++
			d.bad(int(r.Model))
		}
		d.waited(r.Start.Sub(q.Arrival))
	}
	d.observe(r)
}

// busy counts the GPU time of a run.
func (d *driver) busy(r *run) {
	part := d.within(r)
	d.result.Busy[r.GPU] += part
	d.result.BusyByClass[d.cfg.Models[r.Model].Class] += part
}

// within is the part of a run that lies in the counted span.
func (d *driver) within(r *run) mono.Dur {
	return max(0, min(r.End, d.to).Sub(max(r.Start, d.from)))
}

func (d *driver) size(b int) { d.result.Sizes[b] += int64(b) }

func (d *driver) waited(t mono.Dur) { d.result.QueueTime[min(int(t/QueueUnit), queueUnits-1)]++ }

const queueUnits = 10_000 // a second; longer waits count as that

// observe tells of a batch whose fate is known, and takes its memory back.
func (d *driver) observe(r *run) {
	if f := d.cfg.Observer.Executed; f != nil {
		f(&r.Execution)
	}
	g := &d.gpus[r.GPU]
	g.spare = append(g.spare, r.Requests)
}
