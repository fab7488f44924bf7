package backend

import (
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// roster is what one life of a scheduler calls the frontends. A batch has that of who ordered it:
// its outputs find their way also when another scheduler leads meanwhile.
type roster struct {
	byID atomic.Pointer[[]*member] // by wire.FrontendID; read on the request path

	// Guarded by the members' mu.
	named   []naming
	linked  bool // its scheduler can be heard
	settled bool // it has named all that there were when it admitted this backend
}

// naming is a frontend as a scheduler calls it.
type naming struct {
	*member
	id   wire.FrontendID
	seen string // the address that the scheduler knows
}

func newRoster() *roster {
	r := &roster{}
	r.byID.Store(&[]*member{})
	return r
}

// Link implements executor.Links.
func (r *roster) Link(id wire.FrontendID) transport.Link {
	if k := r.member(id); k != nil {
		return k.keeper.Link()
	}
	return nil
}

// AwaitFirst implements executor.Links. Of a frontend that is not known any more
// no link will come.
func (r *roster) AwaitFirst(id wire.FrontendID, d mono.Dur, then func(transport.Link)) {
	if k := r.member(id); k != nil {
		k.keeper.AwaitFirst(d, then)
		return
	}
	then(nil)
}

// instance is a frontend's process; 0: it is not known any more.
func (r *roster) instance(id wire.FrontendID) uint64 {
	if k := r.member(id); k != nil {
		return k.instance
	}
	return 0
}

// member is nil when the frontend is not known.
func (r *roster) member(id wire.FrontendID) *member {
	if all := *r.byID.Load(); int(id) < len(all) {
		return all[id]
	}
	return nil
}

// publish makes the table for the request path. Caller holds the members' mu.
func (r *roster) publish() {
	var table []*member
	for _, n := range r.named {
		for int(n.id) >= len(table) {
			table = append(table, nil)
		}
		table[n.id] = n.member
	}
	r.byID.Store(&table)
}

// at is where a frontend is named, -1: nowhere. Caller holds the members' mu.
func (r *roster) at(k *member) int {
	return slices.IndexFunc(r.named, func(n naming) bool { return n.member == k })
}

// drop takes a frontend off, if it is named. Caller holds the members' mu.
func (r *roster) drop(k *member) {
	if i := r.at(k); i >= 0 {
		r.named = slices.Delete(r.named, i, i+1)
		r.publish()
	}
}
