package backend

import (
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ids are what one life of a scheduler calls models and frontends.
type ids struct {
	life      wire.Epoch
	frontends *roster

	models atomic.Pointer[[]modelRef] // by wire.ModelID; nil: none has been told
	mu     sync.Mutex                 // Guards the making of another table.
}

// modelRef says where a model is.
type modelRef struct {
	pool  int             // -1: not served here
	index int             // its slot
	model *executor.Model // that is to be there
}

func newIDs(life wire.Epoch) *ids { return &ids{life: life, frontends: newRoster()} }

// find is the slot of a model in a pool, and what is to be there; -1: it is not served there.
func (s *ids) find(id wire.ModelID, pool int) (slot int, meant *executor.Model) {
	if t := s.models.Load(); t != nil && int(id) < len(*t) && (*t)[id].pool == pool {
		return (*t)[id].index, (*t)[id].model
	}
	return -1, nil
}

// names reports whether any id leads to a slot.
func (s *ids) names(pool, slot int) bool {
	if t := s.models.Load(); t != nil {
		for _, ref := range *t {
			if ref.pool == pool && ref.index == slot {
				return true
			}
		}
	}
	return false
}

// setRefs makes the table for the request path anew: with the new ids, and without those that
// a pool had, if all are told.
func (s *ids) setRefs(pool int, refs map[wire.ModelID]modelRef, all bool) {
	s.edit(func(table []modelRef) []modelRef {
		for id := range table {
			if all && table[id].pool == pool {
				table[id] = modelRef{pool: -1}
			}
		}
		for id, ref := range refs {
			for int(id) >= len(table) {
				table = append(table, modelRef{pool: -1})
			}
			table[id] = ref
		}
		return table
	})
}

// unbind takes the ids out that lead to a slot.
func (s *ids) unbind(pool, slot int) {
	s.edit(func(table []modelRef) []modelRef {
		for id := range table {
			if table[id].pool == pool && table[id].index == slot {
				table[id] = modelRef{pool: -1}
			}
		}
		return table
	})
}

func (s *ids) edit(edit func([]modelRef) []modelRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var table []modelRef
	if old := s.models.Load(); old != nil {
		table = append(table, *old...)
	}
	table = edit(table)
	s.models.Store(&table)
}

// unbind takes the ids of all schedulers out that lead to a slot.
func (b *Backend) unbind(pool, slot int) {
	for _, u := range b.uplinks {
		if s := u.ids.Load(); s != nil {
			s.unbind(pool, slot)
		}
	}
}
