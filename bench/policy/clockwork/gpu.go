package clockwork

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// gpu is one device and the batches sent to it, in their order.
type gpu struct {
	present bool
	free    mono.Time // when the last batch ends, by what was planned and reported
	batches []run
}

type run struct {
	id          wire.BatchID
	exec, until mono.Time
}

func (g *gpu) add(id wire.BatchID, exec, until mono.Time) {
	g.batches = append(g.batches, run{id, exec, until})
	g.free = until
}

// overdue: a batch has not been reported by its planned end. When the GPU will
// be free is then unknown.
func (g *gpu) overdue(now mono.Time) bool { return len(g.batches) > 0 && g.batches[0].until < now }

// done takes a batch out that ended at end; those behind it move.
func (g *gpu) done(id wire.BatchID, end mono.Time) {
	keep := g.batches[:0]
	g.free = mono.Past
	for _, r := range g.batches {
		if r.id == id {
			g.free = max(g.free, end)
			continue
		}
		length := r.until.Sub(r.exec)
		r.exec = max(r.exec, g.free)
		r.until = r.exec.Add(length)
		g.free = r.until
		keep = append(keep, r)
	}
	g.batches = keep
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
		s.retime(wire.ModelID(i))
	}
}

// requeue puts the requests of a lost batch back, where time is left.
func (s *Scheduler) requeue(now mono.Time, r *policy.Running, out *policy.Out) {
	s.ledger.End(r)
	s.running -= len(r.Requests)
	alone := s.start(1, now, mono.Past).Add(s.models[r.Model].profile.Latency(1))
	for _, q := range r.Requests {
		if s.present == 0 || q.Deadline < alone {
			out.Drop(q, wire.ReasonBackendLost)
			continue
		}
		s.push(r.Model, q)
	}
	s.retime(r.Model)
}

// Done implements policy.Scheduler.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	s.ledger.End(r)
	s.running -= len(r.Requests)
	s.gpus[r.GPU].done(batch, end)
	s.place(r.GPU)
}

// place sets the GPU's free time in the heap.
func (s *Scheduler) place(id wire.GPUID) { s.free.Set(uint32(id), int64(s.gpus[id].free)) }
