package shepherd

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// preemptable: no GPU is idle, and the largest candidate is large enough against
// the smallest running batch.
func (s *Scheduler) preemptable() bool {
	if s.opts.Preempt < 2 || s.candidates.Len() == 0 || s.idle.Len() > 0 || s.victims.Len() == 0 {
		return false
	}
	id, _ := s.candidates.Min()
	gpu, _ := s.victims.Min()
	return s.models[id].size >= s.opts.Preempt*s.gpus[gpu].size
}

// preempt ends the smallest running batch and sends the largest candidate to
// its GPU.
//
// The candidate goes as it is, before the victim's requests are back in their
// queue: were they of the same model they would head it and could make it
// smaller than the batch that was given up for it.
//
// Those that have no time left are dropped a nanosecond later, when their model
// forms its candidate: whoever reads an Out takes its drops first, and would
// see them leave a batch that still runs.
func (s *Scheduler) preempt(now mono.Time, out *policy.Out) {
	id, _ := s.candidates.Min()
	gpu, _ := s.victims.Min()
	r := s.ledger.Find(s.gpus[gpu].batch)
	victim, of := r.ID, r.Model
	s.lost = append(s.lost[:0], r.Requests...)
	s.end(r)
	out.Preempts = append(out.Preempts, policy.Preempt{Batch: victim, GPU: wire.GPUID(gpu)})
	s.dispatch(now, wire.ModelID(id), wire.GPUID(gpu), out)

	m := &s.models[of]
	for i := range s.lost {
		m.queue.Push(s.lost[i])
	}
	s.waiting += len(s.lost)
	m.size = 0
	s.candidates.Remove(uint32(of))
	s.shrinks.Set(uint32(of), int64(now))
}
