package shepherd

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// AddGPU implements policy.Scheduler.
func (s *Scheduler) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	for int(id) >= len(s.gpus) {
		s.gpus = append(s.gpus, gpu{})
	}
	s.RemoveGPU(now, id, out)
	s.seen = now
	s.present++
	s.gpus[id].present = true
	s.idle.Set(uint32(id), 0)
}

// RemoveGPU implements policy.Scheduler. With the last GPU everything that
// waits goes too.
func (s *Scheduler) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	s.seen = now
	if int(id) >= len(s.gpus) || !s.gpus[id].present {
		return
	}
	s.present--
	s.gpus[id].present = false
	s.idle.Remove(uint32(id))
	if r := s.ledger.Find(s.gpus[id].batch); r != nil {
		s.end(r)
		s.requeue(now, r, out)
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
	m := &s.models[r.Model]
	alone := now.Add(s.cfg.Delay.Of(1) + m.profile.Latency(1))
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
