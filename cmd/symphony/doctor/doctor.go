// Package doctor looks at a host as Symphony's processes find it: what costs latency there, what
// will not work as configured, and what to change.
//
// A check reads files below a root and what Host holds beside them (limits, measurements), so that
// a test gives it any host. Every finding is one line that is true of this host now; what cannot be
// known is said to be unknown, not guessed. A warning or a failure always says what to change.
package doctor

import "github.com/symphony-serving/symphony/transport/mono"

// State says how much a finding matters.
type State int

const (
	// OK: nothing to do.
	OK State = iota
	// Note: it cannot be told or changed from here, or matters only in some uses.
	Note
	// Warn: it works, and costs latency or fails under load.
	Warn
	// Fail: it will not work as configured.
	Fail
)

func (s State) String() string { return [...]string{"ok", "note", "warn", "fail"}[s] }

// MarshalText writes the state's word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Finding is one line.
type Finding struct {
	Part   string `json:"part"` // what was looked at: "timers"
	State  State  `json:"state"`
	Found  string `json:"found"`            // what is so
	Change string `json:"change,omitempty"` // what to do; always there for Warn and Fail
}

// Host is what checks look at.
type Host struct {
	Root   string // of its files: "/"
	Cores  []int  // that this process may run on, ascending
	Caps   uint64 // effective capabilities of the process
	Limits Limits
	Clock  Clock
	Shared int64 // bytes of /dev/shm; 0: there is none
	Kernel string
}

// Limits are the process's own; Unlimited where there is none.
type Limits struct {
	Locked  uint64 // bytes of memory that it may pin
	Files   uint64 // that it may have open; Go raises it to the hard limit by itself
	Threads uint64 // of its user
	Nice    uint64 // up to which its threads may be preferred: 40 is the most
}

// Unlimited is no limit.
const Unlimited = ^uint64(0)

// Clock is what was measured of clocks and timers.
type Clock struct {
	Resolution mono.Dur // of timers, as the kernel says
	Reading    mono.Dur // what a reading of the clock takes
	Synced     bool     // the kernel's wall clock follows others
	SyncKnown  bool
	Waits      int      // that were measured, of a millisecond each
	LateP50    mono.Dur // how late they ended
	LateP99    mono.Dur
}

// Needs is what the configuration asks of the host.
type Needs struct {
	Connections int   // of the ingress
	Memory      int64 // bytes that the configured parts take when busy
	Pinned      int64 // bytes of it that RDMA devices and GPUs reach
	Threads     int   // of the process, about
	LoopCores   []int // that the scheduler's loops are tied to; empty: they float
	Devices     bool  // there is an RDMA device or a GPU: memory is pinned
}

// Look runs all checks, in the order in which people read them.
func (h *Host) Look(n Needs) []Finding {
	var all []Finding
	for _, check := range []func(Needs) []Finding{h.system, h.processors, h.frequency, h.idleStates, h.timers, h.clock, h.wallClock,
		h.interrupts, h.priorities, h.locked, h.hugePages, h.memory, h.swap, h.files, h.backlog, h.threads, h.sharedMemory} {
		all = append(all, check(n)...)
	}
	return all
}

// Worst is the gravest state.
func Worst(all []Finding) State {
	worst := OK
	for _, f := range all {
		worst = max(worst, f.State)
	}
	return worst
}
