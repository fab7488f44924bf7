package estimate

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Window is the last Size durations of one key. The zero Window is empty.
type Window struct {
	samples [Size]mono.Dur
	n       int
}

// Size is how many durations count.
const Size = 10

// Add takes a duration; the oldest of more than Size is forgotten.
func (w *Window) Add(d mono.Dur) { panic("api") }

// Len is the number of durations.
func (w *Window) Len() int { panic("api") }

// P99 is their 99th percentile, interpolated between the two at position 0.99(n-1); 0 of none.
func (w *Window) P99() mono.Dur { panic("api") }

// Clock is the frequency of a GPU in MHz; 0: not known, as the reference.
type Clock uint32

// Reference is the clock that executions are kept for: a V100's, as Clockwork has it.
const Reference Clock = 1380

// Scale is what takes d at one clock at the other.
func Scale(d mono.Dur, from, to Clock) mono.Dur { panic("api") }

// Key says what was done. Size 0: a load of the model's weights; else an execution of a batch of that size.
type Key struct {
	Model wire.ModelID
	Size  int
}

// Table has the windows of all keys, and the errors of both kinds.
type Table struct{ Load, Exec Errors }

// Seed begins a key anew with a duration measured before, at the reference clock.
func (t *Table) Seed(k Key, d mono.Dur) { panic("api") }

// Add takes a measurement at a clock, and how it differs from the estimate; a key without a seed begins with it.
func (t *Table) Add(k Key, at Clock, d mono.Dur) { panic("api") }

// Estimate is what the key is planned to take at a clock. A batch of a size that has no window takes
// what the next larger one takes that has. false: there is none.
func (t *Table) Estimate(k Key, at Clock) (mono.Dur, bool) { panic("api") }

// Off tells whether the key's estimate differs from what is planned with by more than 5 % of that, by measurements alone.
func (t *Table) Off(k Key, planned mono.Dur) bool { panic("api") }

// Forget drops all keys of a model.
func (t *Table) Forget(m wire.ModelID) { panic("api") }

// Errors are two histograms of how far durations were from their estimates, of those above and of those below. It
// forgets: of 4096 errors each counts for half.
type Errors struct{ over, under [1]uint32 }

// Add takes an error, took less estimated.
func (e *Errors) Add(d mono.Dur) { panic("api") }

// Over is the q-quantile (0 to 1) of all errors where those below count as 0; no less than it was, by an eighth at most.
func (e *Errors) Over(q float64) mono.Dur { panic("api") }

// Under is the same of errors below the estimate, as positive spans.
func (e *Errors) Under(q float64) mono.Dur { panic("api") }
