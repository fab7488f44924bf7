package shard

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// effort is a model's requests of best effort: a queue of their own, which no candidate is made of. They go by when
// whoever asked gives up (Request.Deadline), which is the order in which they came where that is alike, and wait until a GPU is
// lent to them (Fill).
type effort struct {
	queue pq.Sorted // Request.Deadline, then priority -> slot
	most  int       // of them
	told  mono.Dur  // Least of the last wish
}

// effortPart: best effort takes no slot once one in so many is taken: the others are for requests with deadlines.
const effortPart = 2

// enqueueEffort queues a request of best effort, of a model that is served, or drops it.
func (s *Shard) enqueueEffort(now, came mono.Time, id wire.ModelID, m *model, r *batching.Request, out *Out) {
	reason := wire.ReasonFull
	s.expire(now, m, out)
	switch {
	case s.hastens:
		reason = wire.ReasonDraining
	case m.effort.queue.Len() >= m.effort.most || s.slots.used >= s.slots.most/effortPart:
	default:
		if slot, ok := s.slots.take(r, came); ok {
			m.effort.push(r, slot)
			s.wish(id, m, out)
			return
		}
	}
	out.Drops = append(out.Drops, batching.Drop{Request: *r, Came: came, Reason: reason})
}

func (e *effort) push(r *batching.Request, slot uint32) {
	e.queue.Insert(pq.Entry{Key: int64(r.Deadline), Then: r.Priority.Order(), Value: slot})
}

// expire drops those whom nobody waits for any more. There is no timer for it: whoever asked knows by itself.
func (s *Shard) expire(now mono.Time, m *model, out *Out) {
	for m.effort.queue.Len() > 0 && mono.Time(m.effort.queue.At(0).Key) <= now {
		s.drop(m.effort.queue.Pop().Value, wire.ReasonDeadline, out)
	}
}

// dropEffort drops all of a model.
func (s *Shard) dropEffort(m *model, reason wire.Reason, out *Out) {
	for m.effort.queue.Len() > 0 {
		s.drop(m.effort.queue.Pop().Value, reason, out)
	}
}

// requeueEffort puts a request of a lost batch back; m is nil where the model is not served any more.
func (s *Shard) requeueEffort(now mono.Time, m *model, slot uint32, out *Out) {
	r := s.slots.request(slot)
	if m == nil || s.gpus == 0 || s.hastens || r.Deadline <= now {
		s.drop(slot, wire.ReasonBackendLost, out)
		return
	}
	m.effort.push(r, slot)
}

// cancelEffort takes a request out that is among those of best effort.
func (s *Shard) cancelEffort(id wire.ModelID, m *model, r *batching.Request, out *Out) {
	q := &m.effort.queue
	for i := q.Below(int64(r.Deadline.Add(-cancelSlack))); i < q.Len() && mono.Time(q.At(i).Key) <= r.Deadline.Add(cancelSlack); i++ {
		slot := q.At(i).Value
		if k := s.slots.request(slot); k.ID == r.ID && k.Frontend == r.Frontend {
			q.Remove(i)
			s.drop(slot, wire.ReasonCancelled, out)
			s.wish(id, m, out)
			return
		}
	}
}

// wish tells who matches whether the model wants to be lent a GPU, if that has changed.
func (s *Shard) wish(id wire.ModelID, m *model, out *Out) {
	if least := s.least(m); least != m.effort.told {
		m.effort.told = least
		out.Wishes = append(out.Wishes, gaps.Wish{Model: id, Least: least})
	}
}

// least is how long a gap must be at least for the model; 0: nothing waits.
func (s *Shard) least(m *model) mono.Dur {
	if m.effort.queue.Len() == 0 {
		return 0
	}
	delay := m.Delay()
	return delay.Of(1) + m.Profile().Latency(1)
}

// Fill answers what was lent: with the largest batch of best effort that ends in time, or with the GPU unused.
func (s *Shard) Fill(now mono.Time, g gaps.Grant, out *Out) {
	a := gaps.Answer{Grant: g}
	if m := s.model(g.Model); m != nil {
		s.expire(now, m, out)
		if b := s.fits(now, m, &g); b > 0 && !s.isDead(g.GPU, g.Life) && s.batches.room() {
			s.taken = s.taken[:0]
			for range b {
				s.taken = append(s.taken, m.effort.queue.Pop().Value)
			}
			delay := m.Delay()
			a.Exec = max(now.Add(delay.Of(b)), g.FreeAt)
			a.Until = a.Exec.Add(m.Profile().Latency(b))
			a.Batch = s.dispatch(rank.Grant{Model: g.Model, GPU: g.GPU, Life: g.Life}, now, a.Exec, a.Until, out)
			if g.Generation != 0 {
				d := &out.Dispatches[len(out.Dispatches)-1]
				d.Generation, d.Latest = g.Generation, d.Requests[0].Deadline.Add(-m.Profile().Latency(b))
			}
		}
		a.Least = s.least(m)
		m.effort.told = a.Least
	}
	out.Fills = append(out.Fills, a)
}

// fits is the size of the largest batch that ends by g.Until.
func (s *Shard) fits(now mono.Time, m *model, g *gaps.Grant) int {
	delay := m.Delay()
	b := min(m.effort.queue.Len(), m.Profile().Largest(g.Until.Sub(now)-delay.Ctrl, delay.Data))
	if g.FreeAt > now {
		b = min(b, m.Profile().Largest(g.Until.Sub(g.FreeAt), 0))
	}
	return b
}

// WaitingEffort is the number of requests of best effort that wait in the model's queue.
func (s *Shard) WaitingEffort(id wire.ModelID) int {
	if m := s.model(id); m != nil {
		return m.effort.queue.Len()
	}
	return 0
}
