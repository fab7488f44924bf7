package batching

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Request is what the scheduler knows of a request.
type Request struct {
	ID       wire.RequestID
	Frontend wire.FrontendID
	Arrival  mono.Time
	Deadline mono.Time
	Input    wire.SlabRef
}

// Drop is a request given up before execution, and why.
type Drop struct {
	Request Request
	Reason  wire.Reason
}

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

// Policy names a drop policy.
type Policy uint8

const (
	// PolicyTarget holds a target batch under overload; the default.
	PolicyTarget Policy = iota
	// PolicyHead drops only what cannot make its deadline alone.
	PolicyHead
)

// ParsePolicy reads a policy's name; "" is the default.
func ParsePolicy(name string) (Policy, error) {
	switch name {
	case "", "target":
		return PolicyTarget, nil
	case "head":
		return PolicyHead, nil
	}
	return 0, fmt.Errorf("drop policy %q: must be target or head", name)
}

// Window names the rule for exec.
type Window uint8

const (
	// WindowDeferred starts a batch at frontrun; the default.
	WindowDeferred Window = iota
	// WindowEager starts a batch as soon as a GPU is free (exec = earliest),
	// as Clockwork and Nexus do: the comparison of section 3.3.
	WindowEager
)

// Config of a model.
type Config struct {
	Profile  *profile.Profile
	SLO      mono.Dur // the usual one: sets the target; each request brings its own deadline
	Policy   Policy
	Window   Window
	Delay    Delay
	GPUs     int // GPUs that this model can count on: sets the target
	QueueMax int // waiting requests; more are refused
}
