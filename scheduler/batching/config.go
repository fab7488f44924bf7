package batching

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Config of a model.
type Config struct {
	Profile  *profile.Profile
	SLO      mono.Dur // the usual one: sets the target; each request brings its own deadline
	Policy   Policy
	Window   Window
	Bytes    int // of an item's inputs; 0: they take no time by their size
	Delay    Delay
	Share    Share    // GPUs that this model can count on, until an Offer tells
	QueueMax int      // waiting requests; more are refused
	Timeout  mono.Dur // k of WindowTimeout
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
	// WindowDeferred opens the window by what the model has learnt (opening.go);
	// the default.
	WindowDeferred Window = iota
	// WindowFrontrun starts a batch at frontrun, as the paper has it.
	WindowFrontrun
	// WindowEager starts a batch as soon as a GPU is free (exec = earliest),
	// as Clockwork and Nexus do: the comparison of section 3.3.
	WindowEager
	// WindowTimeout starts a batch a constant Timeout after its first request
	// arrived (deadline less SLO), as TensorFlow Serving does: section 3.4.
	WindowTimeout
)
