package residency

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// did is what a GPU's loader did in a life, and what was unloaded there.
type did struct {
	cold, copies, failed uint64
	unloads              [Removed + 1]uint64 // by Why
	busy                 mono.Dur
}

// Memory is a GPU's as it is now, to look at. Counts are of its life.
type Memory struct {
	Pages, Free   int
	Held, Loading int       // models whose weights are there or on their way; on their way
	Oldest        mono.Time // last use of the copy that is the next to go, of those that requests with a deadline have used; Never: there is none

	Cold, Copies, Failed uint64              // loads that were ordered: of models that no GPU held; of others; of both, that failed
	Unloads              [Removed + 1]uint64 // by Why
	Busy                 mono.Dur            // that its loader copied, of what is reported
}

// Memory is what a GPU holds; false: it is not there. O(1) but for weights in use or wanted, which are passed.
func (r *Residency) Memory(id wire.GPUID) (Memory, bool) {
	if int(id) >= len(r.gpus) || !r.gpus[id].present {
		return Memory{}, false
	}
	g := &r.gpus[id]
	m := Memory{Pages: g.pages, Free: g.free, Held: g.held, Loading: g.undoneN, Oldest: mono.Never,
		Cold: g.did.cold, Copies: g.did.copies, Failed: g.did.failed, Unloads: g.did.unloads, Busy: g.did.busy}
	for p := g.oldest; p != none; p = r.places.all[p].newer {
		if at := &r.places.all[p]; at.used != mono.Past && r.isLoose(p) && r.isIdle(p) {
			m.Oldest = at.used
			break
		}
	}
	return m, true
}

// Standing is a model as it is now, to look at.
type Standing struct {
	Held  int      // GPUs that have it, or are loading it
	Loads uint64   // ordered since it was added
	Unmet mono.Dur // p, where it is above 0: work that its holders cannot do in time
}

// Standing is how a model stands; false: it is not known.
func (r *Residency) Standing(now mono.Time, id wire.ModelID) (Standing, bool) {
	m := r.model(id)
	if m == nil {
		return Standing{}, false
	}
	s := Standing{Held: m.copies, Loads: m.loads}
	if m.waiting.Len() > 0 {
		s.Unmet = max(0, r.Priority(now, id))
	}
	return s, true
}

// Models is one more than the largest id that was added.
func (r *Residency) Models() int { return len(r.models) }
