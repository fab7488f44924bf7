package gaps

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Offer is a matchmaker's Gaps, from the first Wish on, and when it looks for gaps. Before that all it is told is
// forgotten: who has no best effort pays a look at a pointer.
type Offer struct {
	Gaps *Gaps     // nil: nobody ever asked for best effort
	Look mono.Time // when to look for gaps again, while anybody waits
}

// Waiting tells whether anybody could be lent a GPU.
func (o *Offer) Waiting() bool { return o.Gaps != nil && o.Gaps.Waiting() > 0 }

// Forget takes out a model.
func (o *Offer) Forget(id wire.ModelID) {
	if o.Gaps != nil {
		o.Gaps.Remove(id)
	}
}

// Ran tells that a model with deadlines was granted a GPU: see Gaps.Ran.
func (o *Offer) Ran(at mono.Time, slack mono.Dur) {
	if o.Gaps != nil {
		o.Gaps.Ran(at, slack)
	}
}

// Ended tells that a batch, of whomever, ended: its GPU may be free.
func (o *Offer) Ended(gpu wire.GPUID, batch wire.BatchID) {
	if o.Gaps != nil {
		o.Gaps.Ended(gpu, batch)
		o.Look = mono.Past
	}
}

// Lost tells that a GPU goes, or comes.
func (o *Offer) Lost(gpu wire.GPUID) {
	if o.Gaps != nil {
		o.Gaps.RemoveGPU(gpu)
		o.Look = mono.Past
	}
}
