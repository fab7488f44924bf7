package paper

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// relay is one scheduler until an instant and another one from then on, as
// section 3.3 has eager scheduling begin at R16. What the first has begun ends
// under it; a GPU goes over when it is free. What waits when the second takes
// over stays with the first: the example has nothing waiting then.
type relay struct {
	at            mono.Time
	first, second policy.Scheduler
	over          bool // the second is in charge
	running       []wire.BatchID
}

// ofSecond marks the second's batches: both count from 1.
const ofSecond wire.BatchID = 1 << 62

func (r *relay) AddModel(id wire.ModelID, m policy.Model) {
	r.first.AddModel(id, m)
	r.second.AddModel(id, m)
}

func (r *relay) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	r.running = append(r.running, 0)
	r.first.AddGPU(now, id, out)
}

func (r *relay) RemoveGPU(mono.Time, wire.GPUID, *policy.Out) {}

func (r *relay) Submit(now mono.Time, id wire.ModelID, q batching.Request, out *policy.Out) {
	r.turn(now, out)
	if !r.over {
		r.first.Submit(now, id, q, out)
		r.note(out, 0)
		return
	}
	mark := len(out.Dispatches)
	r.second.Submit(now, id, q, out)
	r.note(out, mark)
}

func (r *relay) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	if batch&ofSecond != 0 {
		r.second.Done(now, batch&^ofSecond, end, out)
		return
	}
	r.first.Done(now, batch, end, out)
	for gpu, b := range r.running {
		if b == batch {
			r.running[gpu] = 0
			if r.over {
				r.second.AddGPU(now, wire.GPUID(gpu), out)
			}
		}
	}
}

func (r *relay) Step(now mono.Time, out *policy.Out) {
	r.turn(now, out)
	mark := len(out.Dispatches)
	if r.over {
		r.second.Step(now, out)
	} else {
		r.first.Step(now, out)
	}
	r.note(out, mark)
}

func (r *relay) NextWake() mono.Time {
	if r.over {
		return r.second.NextWake()
	}
	return r.first.NextWake()
}

// turn hands the free GPUs over when the time has come.
func (r *relay) turn(now mono.Time, out *policy.Out) {
	if r.over || now < r.at {
		return
	}
	r.over = true
	for gpu, b := range r.running {
		if b == 0 {
			r.second.AddGPU(now, wire.GPUID(gpu), out)
		}
	}
}

// note remembers where the first's batches run, and marks the second's.
func (r *relay) note(out *policy.Out, from int) {
	for i := from; i < len(out.Dispatches); i++ {
		d := &out.Dispatches[i]
		if r.over {
			d.Batch |= ofSecond
		} else {
			r.running[d.GPU] = d.Batch
		}
	}
}
