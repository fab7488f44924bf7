package sim

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gpu is an emulated GPU: its batches run one after the other, in the order
// they were sent. The inputs of one are fetched while another runs.
type gpu struct {
	alive bool
	runs  []Execution // the first one runs, or waits for its start
	ids   []wire.BatchID
	spare [][]batching.Request // memory of runs that ended
}

// event makes a GPU join or go.
func (d *driver) event(e GPUEvent) {
	switch e.Kind {
	case Join:
		d.join(e.GPU)
	case Leave:
		d.lose(e.GPU)
		d.sched.RemoveGPU(d.now, e.GPU, &d.out)
	case Fail:
		d.lose(e.GPU)
		d.mail.send(message{at: d.now.Add(d.cfg.Detection), kind: failed, gpu: e.GPU})
	}
}

func (d *driver) join(id wire.GPUID) {
	for int(id) >= len(d.gpus) {
		d.gpus = append(d.gpus, gpu{})
	}
	for int(id) >= len(d.result.Busy) {
		d.result.Busy = append(d.result.Busy, 0)
	}
	if d.gpus[id].alive {
		return
	}
	d.gpus[id].alive = true
	d.sched.AddGPU(d.now, id, &d.out)
}

// lose ends a GPU and what runs there; the scheduler queues the requests again.
func (d *driver) lose(id wire.GPUID) {
	if int(id) >= len(d.gpus) || !d.gpus[id].alive {
		return
	}
	for len(d.gpus[id].runs) > 0 {
		d.cut(id, 0)
	}
	d.gpus[id].alive = false
}

// cut ends run i of a GPU now; its work is lost.
func (d *driver) cut(id wire.GPUID, i int) {
	g := &d.gpus[id]
	r := g.runs[i]
	r.End, r.Kept = max(d.now, r.Start), false
	d.result.Lost += d.busy(&r)
	d.observe(&r)
	g.remove(i)
	d.armGPU(id)
}

func (g *gpu) remove(i int) {
	g.spare = append(g.spare, g.runs[i].Requests)
	g.runs = append(g.runs[:i], g.runs[i+1:]...)
	g.ids = append(g.ids[:i], g.ids[i+1:]...)
}

// preempt ends a batch whose requests the scheduler has queued again.
func (d *driver) preempt(p *policy.Preempt) {
	for i, id := range d.gpus[p.GPU].ids {
		if id == p.Batch {
			d.cut(p.GPU, i)
			return
		}
	}
}

// launch sends a batch to its GPU. It starts when it was planned to, but not
// before its order and inputs are there and what was sent before has ended.
func (d *driver) launch(k *policy.Dispatch) {
	g := &d.gpus[k.GPU]
	if !g.alive {
		return // lost with the GPU: the scheduler will learn of it
	}
	r := Execution{Model: k.Model, GPU: k.GPU, Start: max(k.Exec, d.now), Kept: true}
	if net := &d.cfg.Network; d.wired {
		fetch := net.Data.draw(d.net) * mono.Dur(len(k.Requests))
		r.Start = max(r.Start, d.now.Add(net.Ctrl.draw(d.net)+fetch))
	}
	if n := len(g.runs); n > 0 {
		r.Start = max(r.Start, g.runs[n-1].End)
	}
	r.End = r.Start.Add(d.cfg.Jitter.stretch(k.Until.Sub(k.Exec), d.exec))
	if n := len(g.spare); n > 0 {
		r.Requests, g.spare = g.spare[n-1][:0], g.spare[:n-1]
	}
	r.Requests = append(r.Requests, k.Requests...)
	g.runs, g.ids = append(g.runs, r), append(g.ids, k.Batch)
	if len(g.runs) == 1 {
		d.armGPU(k.GPU)
	}
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
		d.ended(&g.runs[0])
		if !d.wired {
			d.sched.Done(d.now, g.ids[0], g.runs[0].End, &d.out)
		} else {
			d.mail.send(message{at: d.now.Add(d.cfg.Network.Ctrl.draw(d.net)), kind: reported, batch: g.ids[0], end: d.now})
		}
		g.remove(0)
		d.armGPU(wire.GPUID(id))
	}
}

// ended counts a batch and its requests.
func (d *driver) ended(r *Execution) {
	busy := d.busy(r)
	answered := r.End
	if d.wired {
		answered = answered.Add(d.cfg.Network.Ctrl.draw(d.net))
	}
	if busy > 0 {
		d.result.Batches++
		d.size(len(r.Requests))
	}
	slo, counts := d.cfg.Models[r.Model].SLO, &d.result.Models[r.Model]
	for i := range r.Requests {
		q := &r.Requests[i]
		if !d.counted(q.Arrival) {
			continue
		}
		if answered <= q.Arrival.Add(slo) {
			counts.Served++
		} else {
			counts.Late++
		}
		d.waited(r.Start.Sub(q.Arrival))
	}
	d.observe(r)
}

// busy adds the part of a run that lies in the counted span to its GPU's time.
func (d *driver) busy(r *Execution) mono.Dur {
	from, to := max(r.Start, d.from), min(r.End, d.to)
	if to <= from {
		return 0
	}
	d.result.Busy[r.GPU] += to.Sub(from)
	return to.Sub(from)
}

func (d *driver) size(b int) { d.result.Sizes[b] += int64(b) }

func (d *driver) waited(t mono.Dur) { d.result.QueueTime[min(int(t/QueueUnit), queueUnits-1)]++ }

const queueUnits = 10_000 // a second; longer waits count as that

func (d *driver) observe(r *Execution) {
	if f := d.cfg.Observer.Executed; f != nil {
		f(r)
	}
}
