package shard

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// cancelSlack is how far the deadline of a Cancel may be from the request's beside what the margin may
// have changed by meanwhile (a quarter of the SLO, package overrun): between two messages the link
// may have learnt that the clocks lie apart otherwise.
const cancelSlack = 10 * mono.Millisecond

// Cancel takes a request out that nobody waits for any more: it leaves in Drops, as cancelled. ID,
// Frontend and Deadline of r say which. One that is not in its model's queue is in a batch already, or
// was answered: then nothing happens. Settle forms the model's candidate, as for Enqueue.
//
// Rejected: an index of requests by id. It would cost each request a map's entry, for the few that are
// cancelled.
func (s *Shard) Cancel(came mono.Time, id wire.ModelID, r *batching.Request, out *Out) {
	m := s.model(id)
	if m == nil {
		if s.moved.has(uint32(id)) {
			out.Moved = append(out.Moved, Moved{Model: id, Came: came, Request: *r, Cancel: true})
		}
		return
	}
	slot, ok := m.Remove(r.Deadline.Add(-m.margin), m.SLO()/4+cancelSlack, func(slot uint32) bool {
		q := s.slots.request(slot)
		return q.ID == r.ID && q.Frontend == r.Frontend
	})
	if !ok {
		s.cancelEffort(id, m, r, out)
		return
	}
	s.drop(slot, wire.ReasonCancelled, out)
	if !m.stirred {
		m.stirred = true
		s.stirred = append(s.stirred, id)
	}
}
