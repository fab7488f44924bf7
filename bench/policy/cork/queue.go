package cork

import (
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

const (
	kept = 50               // batches whose waits count
	tick = mono.Millisecond // the dispatcher's turns
)

// waits is the mean time that the heads of a model's last batches waited.
type waits struct {
	all  [kept]mono.Dur // a ring
	n    int            // that ever were
	next int
	sum  mono.Dur
}

func (w *waits) add(d mono.Dur) {
	w.sum += d - w.all[w.next]
	w.all[w.next] = d
	w.next = (w.next + 1) % kept
	w.n = min(w.n+1, kept)
}

// mean is 0 before the first batch.
func (w *waits) mean() mono.Dur { return w.sum / mono.Dur(max(1, w.n)) }

// span is the predicted time from an order for n requests to their end, also
// where they are more than a batch.
func (s *Scheduler) span(m *model, n int) mono.Dur {
	b := min(n, m.profile.MaxBatch())
	return s.cfg.Delay.Of(n) + m.profile.Latency(b) + m.perItem*mono.Dur(n-b)
}

// reject is when the head is dropped: as soon as all that wait could not run
// with it and end before its deadline; alone it may end at its deadline.
func (s *Scheduler) reject(m *model) mono.Time {
	n := m.queue.Len()
	at := m.queue.Deadline(0).Add(-s.span(m, n))
	if n == 1 {
		at = at.Add(1)
	}
	return at
}

// refresh drops heads and finds out what the model waits for.
func (s *Scheduler) refresh(now mono.Time, id wire.ModelID, out *policy.Out) {
	m := &s.models[id]
	for m.queue.Len() > 0 && s.reject(m) <= now {
		reason := wire.ReasonShed
		if now.Add(s.span(m, 1)) > m.queue.Deadline(0) {
			reason = wire.ReasonDeadline
		}
		s.waiting--
		out.Drop(m.queue.Pop(), reason)
	}
	s.corked.Remove(uint32(id))
	s.released.Remove(uint32(id))
	if m.queue.Len() == 0 {
		s.rejects.Remove(uint32(id))
		return
	}
	s.rejects.Set(uint32(id), int64(s.reject(m)))
	if m.batches >= s.batches() {
		return
	}
	if until := s.cork(m); until > now {
		s.corked.Set(uint32(id), int64(until))
		return
	}
	s.release(id)
}

// batches is how many batches a model may run at a time.
func (s *Scheduler) batches() int {
	if s.opts.Batches > 0 {
		return s.opts.Batches
	}
	return s.present
}

// cork is until when the model waits for more: while n*(w + a + tick), w the time
// since the last arrival, is no more than 0.95 of the mean wait. One request alone
// is not kept beyond its chance.
func (s *Scheduler) cork(m *model) mono.Time {
	n := m.queue.Len()
	if n >= m.profile.MaxBatch() {
		return mono.Past
	}
	until := m.youngest.Add(m.waits.mean()*19/20/mono.Dur(n) - m.perItem - tick + 1)
	if n == 1 {
		until = min(until, s.reject(m).Add(-1))
	}
	return until
}

// release lets the model take an idle GPU; the one whose head waits longest
// goes first.
func (s *Scheduler) release(id wire.ModelID) {
	s.corked.Remove(uint32(id))
	s.released.Set(uint32(id), int64(s.models[id].queue.At(0).Arrival))
}
