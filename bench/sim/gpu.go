package sim

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gpu is an emulated GPU: its batches run one after the other, in the order
// they were sent. The inputs of one are fetched while another runs.
//
// A GPU that joins begins a life. One that failed may join again before the
// scheduler knows of the failure: then the join itself tells, and the scheduler
// loses the old life before it gets the new one. The message that was to tell
// names the old life and comes to nothing. (Rejected: to keep the join back until
// the failure is detected. A backend that is there again says so.)
type gpu struct {
	life  uint32 // how often it joined
	alive bool   // it takes batches
	known bool   // the scheduler counts on it; with alive false it has yet to learn
	runs  []run  // the first one runs, or waits for its start
	told  []run  // that ended, with their reports under way
	spare [][]batching.Request

	pauses *pauses // of all its lives
}

// event makes a GPU join or go.
func (d *driver) event(e GPUEvent) {
	switch e.Kind {
	case Join:
		d.join(e.GPU)
	case Leave:
		d.lose(e.GPU)
		d.remove(e.GPU)
	case Fail:
		if d.lose(e.GPU) {
			d.mail.send(message{at: d.now.Add(d.cfg.Detection), kind: failed, gpu: e.GPU, life: d.gpus[e.GPU].life})
		}
	}
}

// steer adds events of now or later.
func (d *driver) steer(events []GPUEvent) {
	for _, e := range events {
		e.At = max(e.At, d.now)
		d.events = append(d.events, e)
	}
	slices.SortStableFunc(d.events, func(a, b GPUEvent) int { return int(a.At - b.At) })
}

// hold keeps what is to happen to a GPU until the scheduler is back.
func (d *driver) hold(id wire.GPUID, back mono.Time) {
	for i := range d.events {
		if e := &d.events[i]; e.GPU == id {
			e.At = max(e.At, back)
		}
	}
	slices.SortStableFunc(d.events, func(a, b GPUEvent) int { return int(a.At - b.At) })
}

func (d *driver) join(id wire.GPUID) {
	for int(id) >= len(d.gpus) {
		d.gpus = append(d.gpus, gpu{pauses: newPauses(d.cfg.Pauses, BackendPart, len(d.gpus), d.cfg.Seed)})
	}
	for int(id) >= len(d.result.Busy) {
		d.result.Busy = append(d.result.Busy, 0)
	}
	g := &d.gpus[id]
	if g.alive {
		return
	}
	d.remove(id) // a life whose end has not been detected
	g.life++
	g.alive, g.known = true, true
	d.begin(id)
}

// lose ends a GPU and what runs there. It tells whether there was one.
func (d *driver) lose(id wire.GPUID) bool {
	if int(id) >= len(d.gpus) || !d.gpus[id].alive {
		return false
	}
	for len(d.gpus[id].runs) > 0 {
		d.cut(id, 0)
	}
	d.forget(id)
	d.gpus[id].alive = false
	return true
}

// remove tells the scheduler that a GPU is gone. It queues the requests of all
// batches there again that it has no report of, so those whose report is under
// way are lost too.
func (d *driver) remove(id wire.GPUID) {
	if int(id) >= len(d.gpus) || !d.gpus[id].known {
		return
	}
	for len(d.gpus[id].told) > 0 {
		d.disown(id, 0)
	}
	d.gpus[id].known = false
	d.sched.RemoveGPU(d.now, id, &d.out)
}

// detected is the end of a life, as the scheduler learns of it.
func (d *driver) detected(id wire.GPUID, life uint32) {
	if d.gpus[id].life == life {
		d.remove(id)
	}
}
