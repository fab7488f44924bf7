package shard

import (
	"github.com/symphony-serving/symphony/transport/wire"
)

// Extract ends a model that is served elsewhere from now on. What waits for it leaves in
// Moved, in the order of the queue, each request as it came. What runs is left to end here; if its
// GPU is lost, its requests leave in Moved as well, and so do those that still come, until
// the model is added again or removed. A grant on its way is answered with the GPU unused.
func (s *Shard) Extract(id wire.ModelID, out *Out) {
	m := s.model(id)
	if m == nil {
		return
	}
	for {
		slot, ok := m.PopAny()
		if !ok {
			break
		}
		out.Moved = append(out.Moved, Moved{Model: id, Came: *s.slots.came(slot), Request: *s.slots.request(slot)})
		s.slots.give(slot)
	}
	for m.effort.queue.Len() > 0 {
		slot := m.effort.queue.Pop().Value
		out.Moved = append(out.Moved, Moved{Model: id, Came: *s.slots.came(slot), Request: *s.slots.request(slot)})
		s.slots.give(slot)
	}
	s.end(id, m, out)
	s.moved.add(uint32(id))
}

// ids is a set of model ids: a bit for each up to the largest.
type ids []uint64

func (s *ids) add(id uint32) {
	for int(id/64) >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[id/64] |= 1 << (id % 64)
}

func (s ids) remove(id uint32) {
	if s.has(id) {
		s[id/64] &^= 1 << (id % 64)
	}
}

func (s ids) has(id uint32) bool { return int(id/64) < len(s) && s[id/64]>>(id%64)&1 != 0 }
