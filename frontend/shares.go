package frontend

import (
	"slices"
	"sync/atomic"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Which version answers a request that names none. The control plane may say by shares
// (catalog.Name); where it does not, the highest version that is ready answers, else the
// highest.
//
// Shares are kept request by request, not by drawing lots: after n requests a version whose
// share is p has had n*p of them, give or take less than one. Versions that are gone or not
// ready give their part to the others in proportion; with all of them away it is as without
// shares. Nothing is refused because of shares.
//
// Requests are counted anew when other versions come into question, and with another link to
// the scheduler; a version that was away for a moment finds the count as it left it.

// versions are a name's models in one snapshot.
type versions struct {
	all     []*model // the highest first
	sharing *sharing // nil: nobody said
	shared  []*model // of sharing.shares, each at its place; nil: it is not there
}

// choose takes the next turn: it is for a request that will go out.
func (v *versions) choose() *model {
	if v.sharing == nil {
		return v.foremost()
	}
	if t := v.sharing.turns.Load(); t != nil {
		if m := v.shared[t.next()]; m != nil && m.ready() {
			return m
		}
	}
	return v.foremost()
}

// foremost is the version that stands for the name where no request is made: of those that
// are ready the one with the largest share, else the highest.
func (v *versions) foremost() *model {
	var best *model
	var most uint32
	for i, m := range v.shared {
		if w := v.sharing.shares[i].Weight; m != nil && m.ready() && (w > most || w == most && w > 0 && higher(m, best)) {
			best, most = m, w
		}
	}
	if best != nil {
		return best
	}
	for _, m := range v.all {
		if m.ready() {
			return m
		}
	}
	return v.all[0]
}

func higher(a, b *model) bool { return compareVersions(a.entry.Spec.Version, b.entry.Spec.Version) > 0 }

// find is the version, or nil.
func (v *versions) find(version string) *model {
	for _, m := range v.all {
		if m.entry.Spec.Version == version {
			return m
		}
	}
	return nil
}

// sharing is what the control plane said of a name. It outlives snapshots, and so does the
// count of its turns.
type sharing struct {
	shares []catalog.Share // Immutable.
	turns  atomic.Pointer[turns]
	all    *turns // those of all versions together; Owned by the link's receiving goroutine.
}

// refresh makes the turns those of the versions that are ready.
func (v *versions) refresh() {
	weights := make([]uint32, len(v.shared))
	whole := true
	for i, m := range v.shared {
		if m != nil && m.ready() {
			weights[i] = v.sharing.shares[i].Weight
		}
		whole = whole && weights[i] == v.sharing.shares[i].Weight
	}
	switch s, now := v.sharing, v.sharing.turns.Load(); {
	case now != nil && slices.Equal(now.weights, weights):
	case !whole:
		s.turns.Store(newTurns(weights))
	default:
		if s.all == nil {
			s.all = newTurns(weights)
		}
		s.turns.Store(s.all)
	}
}

// turnsMax is the most requests after which the turns begin again. Weights whose sum, without
// common factors, is larger are rounded to about one in turnsMax.
const turnsMax = 1 << 14

// turns say whose the next request is.
type turns struct {
	weights []uint32 // as they were given
	table   []uint8  // places of shares
	n       atomic.Uint64
}

func (t *turns) next() int { return int(t.table[(t.n.Add(1)-1)%uint64(len(t.table))]) }

// newTurns deals a round of requests to the weights. A weight w of the sum W may get a request
// while it has fewer than its part of them, this one included, and has a deadline for its
// (i+1)th: request (i+1)*W/w, rounded up. Earliest deadline first meets all of them, since the
// weights together need no more than there is; so none is ever a whole request away from its
// part. nil: there is no weight.
func newTurns(given []uint32) *turns {
	weights, sum := rounded(given)
	if sum == 0 {
		return nil
	}
	t := &turns{weights: given, table: make([]uint8, sum)}
	had := make([]uint64, len(weights))
	for at := range sum {
		best, due := -1, uint64(0)
		for i, w := range weights {
			if w == 0 || had[i]*sum >= (at+1)*w {
				continue // it is ahead of its part
			}
			d := ((had[i]+1)*sum + w - 1) / w
			if best < 0 || d < due || d == due && w > weights[best] {
				best, due = i, d
			}
		}
		t.table[at] = uint8(best)
		had[best]++
	}
	return t
}

// rounded are the weights without common factors, with a sum of about turnsMax at most.
func rounded(given []uint32) (weights []uint64, sum uint64) {
	factor := uint64(0)
	for _, w := range given {
		weights = append(weights, uint64(w))
		for a, b := uint64(w), factor; ; a, b = b, a%b {
			if b == 0 {
				factor = a
				break
			}
		}
		sum += uint64(w)
	}
	if sum == 0 {
		return weights, 0
	}
	all := sum / factor
	sum = 0
	for i := range weights {
		weights[i] /= factor
		if all > turnsMax && weights[i] > 0 {
			weights[i] = max(1, (weights[i]*turnsMax+all/2)/all)
		}
		sum += weights[i]
	}
	return weights, sum
}
