package backend

import (
	"maps"
	"slices"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// routed is what schedulers said of the models that are routed to a sub-cluster: kept for the
// next introduction, so that a scheduler that starts anew finds it.
type routed struct {
	epoch, serial uint64
	reign         uint64 // of who said all of it
	keys          map[string]bool
}

// hear takes what is said of a sub-cluster in a reign; what is older than what is known is left. (All
// that a later reign says is newer, also where its scheduler was started earlier.) Caller holds mu.
func (s *stock) hear(t *catalog.Told, reign uint64) {
	r := s.routed[t.SubCluster]
	switch {
	case r == nil && !t.Whole:
		return // a change of what nobody has told us
	case r == nil:
		r = &routed{}
		if s.routed == nil {
			s.routed = map[string]*routed{}
		}
		s.routed[t.SubCluster] = r
	case t.Whole && reign > r.reign:
	case t.Epoch < r.epoch || t.Epoch == r.epoch && t.Serial < r.serial:
		return
	}
	r.epoch, r.serial = t.Epoch, t.Serial
	if t.Whole {
		r.reign = reign
		r.keys = map[string]bool{}
	}
	for _, key := range t.Gone {
		delete(r.keys, key)
	}
	for _, key := range t.Keys {
		if len(r.keys) < catalog.ModelsMax {
			r.keys[key] = true
		}
	}
}

// reignOf is that in which a scheduler orders; 0 where there is only one, whose words tell by themselves
// which is newer.
func (s *stock) reignOf(u *uplink) uint64 {
	if len(s.ledgers) == 1 {
		return 0
	}
	return u.reign.Load()
}

// forgetRouted drops what was said of sub-clusters where no device is any more. Caller holds mu.
func (s *stock) forgetRouted() {
	maps.DeleteFunc(s.routed, func(name string, _ *routed) bool {
		return !slices.ContainsFunc(s.devices, func(d stockedDevice) bool { return d.in == name })
	})
}

// repeated is all that was said, by sub-cluster. Caller holds mu.
func (s *stock) repeated() (all []catalog.Told) {
	for _, name := range slices.Sorted(maps.Keys(s.routed)) {
		r := s.routed[name]
		all = append(all, catalog.Told{SubCluster: name, Epoch: r.epoch, Serial: r.serial, Whole: true, Keys: slices.Sorted(maps.Keys(r.keys))})
	}
	return all
}
