package backend

import (
	"slices"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// What the scheduler that is obeyed orders of a backend's stock (Keep), the others of its group are
// told as it came: each knows what devices shall have, and where they are, when it leads. What came
// between a link's introduction and its admission they are told in sum.

// passOn tells the other schedulers of an order.
func (b *Backend) passOn(from *uplink, keep []byte) {
	keep = slices.Clone(keep) // links hold it longer than this one
	for _, u := range b.uplinks {
		if l := u.link.Load(); u != from && l != nil {
			sendKeep(*l, keep)
		}
	}
}

func sendKeep(l transport.Link, keep []byte) {
	if err := l.SendPayload((&wire.Doc{Type: wire.DocKeep}).Append(nil, len(keep)), keep, nil); err != nil {
		l.Close(err) // a new link is introduced with all that there is
	}
}

// catchUp tells a scheduler that has just admitted us what it has missed.
func (b *Backend) catchUp(u *uplink, l transport.Link) {
	for _, p := range b.pools {
		for _, k := range p.stock.missedBy(u, l) {
			transport.SendDoc(l, wire.DocKeep, k)
		}
	}
}

// missedBy is where devices are, and what is routed there, if that has changed since a scheduler
// was introduced.
func (s *stock) missedBy(u *uplink, l transport.Link) (all []catalog.Keep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.introducedBy(u, l)
	if known == nil || !known.missed {
		return nil
	}
	known.missed = false
	told := s.repeated()
	for d := range s.devices {
		k := catalog.Keep{Pool: s.index, Device: d, In: s.devices[d].in}
		if i := slices.IndexFunc(told, func(t catalog.Told) bool { return t.SubCluster == k.In }); i >= 0 {
			k.Told = &told[i]
		}
		all = append(all, k)
	}
	return all
}
