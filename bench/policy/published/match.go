package published

import (
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// seek is the model's timer: the candidate takes the GPU that is free first, or
// waits for one.
func (s *Scheduler) seek(now mono.Time, id wire.ModelID, out *policy.Out) {
	m := &s.models[id]
	delay := s.cfg.Delay.Of(m.size)
	if s.serviceable(now) {
		if gpu, free := s.free.Min(); mono.Time(free) <= max(m.exec, now.Add(delay)) {
			s.dispatch(now, id, wire.GPUID(gpu), out)
			return
		}
	}
	s.ready.Set(uint32(id), int64(m.latest))
	s.reach.Set(uint32(id), int64(-delay))
}

// gpuTimer is when an order to the GPU that is free first has to leave, if it
// takes the longest that one takes.
func (s *Scheduler) gpuTimer() mono.Time {
	if s.ready.Len() == 0 || s.free.Len() == 0 {
		return mono.Never
	}
	_, delay := s.reach.Min()
	return first(&s.free).Add(mono.Dur(delay))
}

// offer is the GPU's timer: it takes the candidate with the least latest of
// those that it is free for in time.
func (s *Scheduler) offer(now mono.Time, out *policy.Out) {
	if !s.serviceable(now) || s.gpuTimer() > now {
		return
	}
	gpu, free := s.free.Min()
	id, latest := s.ready.Min()
	if latest < free {
		s.unready(wire.ModelID(id))
		return
	}
	s.dispatch(now, wire.ModelID(id), wire.GPUID(gpu), out)
}

// serviceable takes overdue GPUs out of the heap and reports whether one is left
// at its top.
func (s *Scheduler) serviceable(now mono.Time) bool {
	for s.free.Len() > 0 {
		id, _ := s.free.Min()
		if !s.gpus[id].overdue(now) {
			return true
		}
		s.free.Remove(id)
	}
	return false
}

// dispatch forms the model's batch for that GPU and sends it. There is one: the
// candidate's last start has not passed, and the GPU is free by it.
func (s *Scheduler) dispatch(now mono.Time, id wire.ModelID, to wire.GPUID, out *policy.Out) {
	m, g := &s.models[id], &s.gpus[to]
	b := s.form(now, g.free, id, out)
	invariants.Check(b > 0, "published: a candidate without a batch")
	exec, _ := s.window(m, b, now)
	exec = max(exec, now.Add(s.cfg.Delay.Of(b)), g.free)
	until := exec.Add(m.profile.Latency(b))
	s.batch = s.batch[:0]
	for range b {
		s.batch = append(s.batch, m.queue.Pop())
	}
	s.waiting -= b
	s.running += b
	invariants.Check(until <= s.batch[0].Deadline, "published: a batch that ends after its first deadline")
	r := s.ledger.Start(policy.Running{Model: id, GPU: to, Exec: exec, Until: until, Requests: s.batch}, out)
	g.add(r.ID, until)
	s.place(to)
	s.refresh(now, id, out)
}
