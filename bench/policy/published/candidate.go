package published

import (
	"sort"

	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// slack is what the code takes off the window for its timers' jitter.
const slack = 100 * mono.Microsecond

// end is when a batch of size b ends on a GPU that is free then.
func (s *Scheduler) end(m *model, b int, now, free mono.Time) mono.Time {
	b = min(b, m.profile.MaxBatch())
	return max(now.Add(s.cfg.Delay.Of(b)), free).Add(m.profile.Latency(b))
}

// form is the window drop for a GPU that is free then: it drops heads and
// returns the size of the batch at the front of what is left; 0: nothing is.
//
// A later head has a later deadline and fewer behind it, so that where to cut
// is a binary search.
func (s *Scheduler) form(now, free mono.Time, id wire.ModelID, out *policy.Out) int {
	m := &s.models[id]
	n := m.queue.Len()
	if n == 0 {
		return 0
	}
	cut := sort.Search(n, func(i int) bool { return m.queue.Deadline(i) >= s.end(m, n-i, now, free) })
	b := max(1, min(m.target, n-cut)) // if all are cut, none can be served alone
	fits, alone := s.end(m, b, now, free), s.end(m, 1, now, free)
	for m.queue.Len() > 0 && m.queue.Deadline(0) < fits {
		reason := wire.ReasonShed
		if m.queue.Deadline(0) < alone {
			reason = wire.ReasonDeadline
		}
		s.waiting--
		out.Drop(m.queue.Pop(), reason)
	}
	if m.queue.Len() == 0 {
		return 0
	}
	d := m.queue.Deadline(0)
	b = m.profile.Largest(d.Sub(now)-s.cfg.Delay.Ctrl, s.cfg.Delay.Data)
	if free > now {
		b = min(b, m.profile.Largest(d.Sub(free), 0))
	}
	return min(b, m.queue.Len())
}

// refresh forms a model's candidate anew and sets its timers. A model that
// waited for a GPU seeks one again.
func (s *Scheduler) refresh(now mono.Time, id wire.ModelID, out *policy.Out) {
	m := &s.models[id]
	m.retarget(now, s.cfg.Delay)
	m.size = s.form(now, mono.Past, id, out)
	s.unready(id)
	if m.size == 0 {
		s.timers.Remove(uint32(id))
		s.expires.Remove(uint32(id))
		return
	}
	delay := s.cfg.Delay.Of(m.size)
	m.exec, m.latest = s.window(m, m.size, now)
	s.timers.Set(uint32(id), int64(m.exec.Add(-delay)))
	s.expires.Set(uint32(id), int64(m.latest.Add(1-delay)))
}

// window is the desired start of a batch of size b, which may have passed, and
// its last one. A full batch wants to start now.
func (s *Scheduler) window(m *model, b int, now mono.Time) (exec, latest mono.Time) {
	d := m.queue.Deadline(0)
	exec = now
	if b < m.profile.MaxBatch() {
		exec = d.Add(-slack - m.profile.Latency(b+1) - s.cfg.Delay.Data)
	}
	return exec, d.Add(-m.profile.Latency(b))
}

// unready takes a model out of those that wait for a GPU.
func (s *Scheduler) unready(id wire.ModelID) {
	s.ready.Remove(uint32(id))
	s.reach.Remove(uint32(id))
}
