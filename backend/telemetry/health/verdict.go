package health

import "github.com/symphony-serving/symphony/transport/mono"

// State is how much a GPU can be trusted.
type State uint8

// States, from good to bad.
const (
	Healthy State = iota
	Warn          // something is to be said; it serves
	Out           // it must not serve
)

// String names it.
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Warn:
		return "warn"
	}
	return "out"
}

// MarshalText names it in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Remedy is what a GPU that is out needs, beside time, to serve again.
type Remedy uint8

// Remedies, from small to large.
const (
	Wait       Remedy = iota // until it is healthy
	NewContext               // its CUDA context is lost: close it, and open a new one
	Reset                    // close the context; a person resets the GPU or its host
)

// String names it.
func (r Remedy) String() string {
	switch r {
	case Wait:
		return "wait"
	case NewContext:
		return "new context"
	}
	return "reset"
}

// MarshalText names it in JSON.
func (r Remedy) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Verdict is what is held of a GPU.
type Verdict struct {
	State  State  `json:"state"`
	Cause  string `json:"cause,omitempty"` // in words; empty when healthy
	Remedy Remedy `json:"remedy"`          // the largest since it went out
}

// Facts are what was seen of a GPU at an instant.
type Facts struct {
	Gone         string  // why it cannot be reached; empty: it is there
	Throttle     Reasons // why its clocks are held down
	Uncorrected  int64   // memory errors since the driver was loaded; negative: unknown
	RemapPending bool    // a row of its memory is replaced with the next reset
	RemapFailed  bool    // a row could not be replaced
	Others       string  // compute processes that are not ours, in words; empty: none
	Detail       string  // temperature and clocks, for the cause of throttling
}

// Config of a Judge; what is 0 is the default.
type Config struct {
	Throttle      mono.Dur // throttled for so long: out; 1 s
	Silence       mono.Dur // without facts for so long: warn; for five times: out; 2 s
	Hold          mono.Dur // without a reason to be out for so long: it returns; 5 s
	HoldMax       mono.Dur // after relapses; 5 min
	Forget        mono.Dur // relapses are forgotten after so long a time in service; 10 min
	Probation     mono.Dur // out after an uncorrectable memory error; 1 min
	Others        mono.Dur // a process of others for so long is said; 500 ms
	OthersOut     bool     // out while processes of others compute on it
	ThrottleWarns bool     // throttling only warns: where slow is better than not at all
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		at *mono.Dur
		by mono.Dur
	}{
		{&c.Throttle, mono.Second}, {&c.Silence, 2 * mono.Second}, {&c.Hold, 5 * mono.Second},
		{&c.HoldMax, 300 * mono.Second}, {&c.Forget, 600 * mono.Second}, {&c.Probation, 60 * mono.Second}, {&c.Others, mono.Second / 2},
	} {
		if *d.at <= 0 {
			*d.at = d.by
		}
	}
	return c
}
