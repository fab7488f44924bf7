package netprobe

import (
	"errors"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrFull is what Watch says when Options.WatchesMax connections are watched.
var ErrFull = errors.New("netprobe watches as many connections as it may: this one has its heartbeats alone")

// UnsupportedError says in one line why there is no probe here. It matches
// errors.ErrUnsupported.
type UnsupportedError struct {
	What string // "kernel probe of round-trip times"
	Need string // "run as root or with CAP_BPF and CAP_PERFMON"
	Err  error  // what the kernel or the loader said; may be nil
}

// Error says what is missing, what it needs, and what was said.
func (e *UnsupportedError) Error() string {
	s := e.What + " not available: " + e.Need
	if e.Err != nil {
		s += " (" + e.Err.Error() + ")"
	}
	return s
}

// Is makes it errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Unwrap is what the kernel or the loader said.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// what is every UnsupportedError's What.
const what = "kernel probe of round-trip times"

// Options of a probe; zero values mean the defaults.
type Options struct {
	Window     mono.Dur // what Stats looks back on (default 10 s)
	WatchesMax int      // connections watched at once (default 4096)
}

func (o Options) defaults() Options {
	if o.Window <= 0 {
		o.Window = 10 * mono.Second
	}
	if o.WatchesMax <= 0 {
		o.WatchesMax = 4096
	}
	return o
}
