package batching

import "github.com/symphony-serving/symphony/transport/mono"

// Delay is the network's delay bound: an order reaches a GPU within Ctrl, and
// each input of the batch takes Data more (Figure 18).
//
// Lead opens the window that much before frontrun. Where alpha is small the
// window [frontrun, latest] is narrower than a thread's wake-up is late (2.6 us
// for a small model on a CPU, against 50 us), and every wake-up would find
// that the batch no longer fits and cut it. The simulator has no late wake-ups:
// there it is 0.
type Delay struct{ Ctrl, Data, Lead mono.Dur }

// Of is delay(b).
func (d Delay) Of(b int) mono.Dur { return d.Ctrl + d.Data*mono.Dur(b) }

// Candidate is a model's current best batch with its window. Size 0: none.
type Candidate struct {
	Size   int
	Exec   mono.Time // desired start
	Latest mono.Time // last start that keeps the earliest deadline
	Delay  mono.Dur  // delay(Size): the order leaves at Exec - Delay
}
