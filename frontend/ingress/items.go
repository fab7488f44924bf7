package ingress

import (
	"fmt"

	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/wire"
)

// itemsMost is the largest number of items in a client-side batch: four of the largest batches that a
// model may have. Each item is a request of its own inside, so a batch may have more items than the model's
// max_batch. A client-side batch has at most what a frontend may have open (frontend.max_in_flight), too.
const itemsMost = 4 * wire.BatchMax

// CheckItems refuses a client-side batch of too few or too many items; input is its place among the
// request's.
func (s *Server) CheckItems(n int64, input int) error {
	if n >= 1 && n <= int64(s.cfg.ItemsMax) {
		return nil
	}
	hint := ""
	if n > int64(s.cfg.ItemsMax) {
		hint = ": send more requests of fewer items"
		if s.cfg.ItemsMax < itemsMost {
			hint += ", or raise frontend.max_in_flight"
		}
	}
	return oip.Errorf(oip.Field("inputs", input, "shape"), "a batch of %d items, must be 1 to %d%s", n, s.cfg.ItemsMax, hint)
}

// EnterItems reserves room for a client-side batch before memory is taken for its items: all that are
// open have no more items than a frontend may have open requests, since the others would be refused one by
// one. bytes are what copies of the tensors will take that no Hold counts. LeaveItems follows a success.
func (s *Server) EnterItems(n int, bytes int64) error {
	if open := s.items.Add(int64(n)); open > int64(s.cfg.ItemsOpen) {
		s.items.Add(-int64(n))
		return s.full(fmt.Sprintf("too many items of client-side batches at a time: at most %d (frontend.max_in_flight)", s.cfg.ItemsOpen))
	}
	if limit := s.cfg.BodiesMax; bytes > 0 && s.bodies.Add(bytes) > limit {
		s.LeaveItems(n, bytes)
		return s.full(fmt.Sprintf("too many bytes of tensors at a time: at most %d", limit))
	}
	return nil
}

// LeaveItems gives back what EnterItems has reserved.
func (s *Server) LeaveItems(n int, bytes int64) {
	s.items.Add(-int64(n))
	s.bodies.Add(-bytes)
}

// few keeps what most requests need, and not what one of thousands of items has taken.
func few[T any](s []T) []T {
	if cap(s) > wire.BatchMax {
		return nil
	}
	return s[:0]
}
