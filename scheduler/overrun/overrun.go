package overrun

import (
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	window = 256 // samples remembered
	every  = 32  // samples between two looks
	rank   = 3   // the bound is the third largest: about p99 of a full window

	// Age is how long a sample counts. A slow model takes long to fill the
	// window, and a pause must not cost it more than this.
	Age = 5 * mono.Second

	// step is the least change of a bound that matters.
	step = 50 * mono.Microsecond
)

// Overrun estimates how much later than planned a model's batches end.
type Overrun struct {
	samples [window]mono.Dur
	at      [window]mono.Time
	n       int
	most    mono.Dur // clamp
	current mono.Dur
}

// New makes an estimator without samples, whose bound is at most that.
func New(most mono.Dur) *Overrun { return &Overrun{most: most} }

// Add takes one batch; true when the bound changed by enough to matter.
func (o *Overrun) Add(now mono.Time, late mono.Dur) bool {
	o.samples[o.n%window], o.at[o.n%window] = late, now
	o.n++
	if o.n%every != 0 {
		return false
	}
	var recent [window]mono.Dur
	n := 0
	for i := range min(o.n, window) {
		if now.Sub(o.at[i]) <= Age {
			recent[n] = o.samples[i]
			n++
		}
	}
	slices.Sort(recent[:n])
	before := o.current
	o.current = min(max(0, recent[max(0, n-rank)]), o.most)
	change := o.current - before
	return change > step || change < -step
}

// Bound is the margin that the overruns call for.
func (o *Overrun) Bound() mono.Dur { return o.current }
