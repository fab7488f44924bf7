package shepherd

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// The keys of the heaps have the size in their upper bits and an instant in
// the lower ones, so that one comparison orders by both. Instants are shortened
// to steps of 2 us, which leaves room for every instant and for sizes up to
// profile.BatchMax.
const (
	instantBits  = 52
	instantShift = 63 - instantBits
)

func instant(t mono.Time) int64 { return int64(max(t, 0)) >> instantShift }

// candidateKey: the largest size first, then the earliest deadline.
func candidateKey(size int, deadline mono.Time) int64 {
	return instant(deadline) - int64(size)<<instantBits
}

// victimKey: the smallest size first, then the latest start, which has done
// the least work.
func victimKey(size int, exec mono.Time) int64 {
	return int64(size)<<instantBits - instant(exec)
}

// refresh forms a model's candidate anew: the largest batch at the front of
// its queue that meets the first deadline when its order leaves now. What
// cannot even make it alone is dropped.
func (s *Scheduler) refresh(now mono.Time, id wire.ModelID, out *policy.Out) {
	m := &s.models[id]
	for m.queue.Len() > 0 {
		d := m.queue.Deadline(0)
		b := m.profile.Largest(d.Sub(now)-s.cfg.Delay.Ctrl, s.cfg.Delay.Data)
		if b > 0 {
			m.size = min(b, m.queue.Len())
			s.candidates.Set(uint32(id), candidateKey(m.size, d))
			s.shrinks.Set(uint32(id), int64(d.Add(-m.profile.Latency(m.size)-s.cfg.Delay.Of(m.size))))
			return
		}
		s.waiting--
		out.Drop(m.queue.Pop(), wire.ReasonDeadline)
	}
	m.size = 0
	s.candidates.Remove(uint32(id))
	s.shrinks.Remove(uint32(id))
}
