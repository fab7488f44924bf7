package published

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lateMax is how late a batch may be before its GPU gets no more.
const lateMax = 20 * mono.Millisecond

// gpu is one device and the batches sent to it, in their order.
type gpu struct {
	present bool
	free    mono.Time // when the last batch is planned to end
	batches []run
}

type run struct {
	id    wire.BatchID
	until mono.Time // as planned
}

func (g *gpu) add(id wire.BatchID, until mono.Time) {
	g.batches = append(g.batches, run{id, until})
	g.free = until
}

// overdue: a batch has not been reported long after its planned end.
func (g *gpu) overdue(now mono.Time) bool {
	return len(g.batches) > 0 && g.batches[0].until.Add(lateMax) < now
}

// AddGPU implements policy.Scheduler.
func (s *Scheduler) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	for int(id) >= len(s.gpus) {
		s.gpus = append(s.gpus, gpu{})
	}
	s.RemoveGPU(now, id, out)
	s.present++
	s.gpus[id] = gpu{present: true, free: now, batches: s.gpus[id].batches[:0]}
	s.place(id)
}

// RemoveGPU implements policy.Scheduler. With the last GPU everything that
// waits goes too.
func (s *Scheduler) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.gpus) || !s.gpus[id].present {
		return
	}
	s.present--
	s.gpus[id].present = false
	s.free.Remove(uint32(id))
	s.ids = s.ledger.OnGPU(id, s.ids[:0])
	for _, batch := range s.ids {
		s.requeue(now, s.ledger.Find(batch), out)
	}
	if s.present > 0 {
		return
	}
	for i := range s.models {
		for m := &s.models[i]; m.queue.Len() > 0; s.waiting-- {
			out.Drop(m.queue.Pop(), wire.ReasonUnavailable)
		}
		s.refresh(now, wire.ModelID(i), out)
	}
}

// requeue puts the requests of a lost batch back, where time is left.
func (s *Scheduler) requeue(now mono.Time, r *policy.Running, out *policy.Out) {
	s.ledger.End(r)
	s.running -= len(r.Requests)
	m := &s.models[r.Model]
	alone := s.end(m, 1, now, mono.Past)
	for _, q := range r.Requests {
		if s.present == 0 || q.Deadline < alone {
			out.Drop(q, wire.ReasonBackendLost)
			continue
		}
		s.waiting++
		m.queue.Push(q)
	}
	s.refresh(now, r.Model, out)
}

// Done implements policy.Scheduler. The GPU is free when it was planned to be,
// whatever is reported.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	s.ledger.End(r)
	s.running -= len(r.Requests)
	g := &s.gpus[r.GPU]
	g.batches = slices.DeleteFunc(g.batches, func(k run) bool { return k.id == batch })
	s.place(r.GPU)
}

// place sets the GPU's free time in the heap.
func (s *Scheduler) place(id wire.GPUID) { s.free.Set(uint32(id), int64(s.gpus[id].free)) }
