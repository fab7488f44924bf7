package plan

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Kind of a Step.
type Kind uint8

const (
	// Load makes Models (one, so that a failure names it) resident on GPU: loaded and warm.
	// Loading what is resident already, or being loaded, is no error.
	Load Kind = iota
	// Unload takes Models from GPU. None of them is routed to its sub-cluster.
	Unload
	// Route sends the requests of Models (one) to sub-cluster To from now on; those that wait
	// move with it. To "": they are answered as unavailable.
	Route
	// Drain takes GPU out of its sub-cluster. It is done when the GPU has nothing to do.
	Drain
	// Seat puts GPU into sub-cluster To: a free one, or one that drains and is in To still,
	// which ends the drain.
	Seat
	// Measure makes a profile of Models (one) on GPU.
	Measure
	// Set puts Settings of Models (one) in force.
	Set

	kinds = int(Set) + 1
)

func (k Kind) String() string {
	names := [...]string{"load", "unload", "route", "drain", "seat", "measure", "set"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// Step is one thing to do. It is done, or it fails with a reason, or it takes too long.
type Step struct {
	ID       uint64 // of this Rollout, from 1
	Kind     Kind
	GPU      string
	Models   []string
	To       string
	Settings *Settings
	Within   mono.Dur // it is not begun later than this after Next; a load that has begun may go on
	Why      string   // not "": what it costs, and why it is done all the same
}

func (s Step) String() string {
	text := s.Kind.String()
	for _, part := range []string{s.GPU, strings.Join(s.Models, " ")} {
		if part != "" {
			text += " " + part
		}
	}
	switch {
	case s.Kind == Route && s.To == "":
		text += " -> nowhere"
	case s.Kind == Route || s.Kind == Seat:
		text += " -> " + s.To
	case s.Kind == Set && s.Settings != nil:
		text += fmt.Sprintf(" SLO %v, drop %q, max_batch %d, share %g", s.Settings.SLO, s.Settings.Drop, s.Settings.MaxBatch, s.Settings.Share)
	}
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	return text
}
