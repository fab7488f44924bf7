package gpu

import (
	"context"
	"io"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/bench/load"
	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Machine is what is measured. Its functions open things when the first part needs them.
type Machine struct {
	Driver     cuda.Driver
	Processors int
	// Look reads all GPUs' clocks, power and health; an error says what is missing.
	Look func() ([]Reading, error)
	// Suite runs the driver's conformance suite and writes its lines (go test -v).
	Suite func(ctx context.Context, to io.Writer) error
	// Open loads the models on the first device, and on the CPU beside it.
	Open func(ctx context.Context) (*Direct, error)
	// Serve starts a whole system on all devices, which tells the Recorder.
	Serve func(ctx context.Context, r *Recorder) (*System, error)
	// Scaling searches what so many model loops carry, requests/s, within a span.
	Scaling func(ctx context.Context, loops int, span mono.Dur) (float64, error)
}

// Reading is a GPU's state at a time, as far as NVML tells; 0: it does not.
type Reading struct {
	Name         string   `json:"name"`
	UUID         string   `json:"uuid"`
	Driver       string   `json:"driver,omitempty"`
	ClockMHz     float64  `json:"clock_mhz"`
	ClockMostMHz float64  `json:"clock_most_mhz"`
	MemoryMHz    float64  `json:"memory_clock_mhz"`
	PowerW       float64  `json:"power_w"`
	PowerMostW   float64  `json:"power_most_w"`
	Celsius      float64  `json:"celsius"`
	UsedBytes    int64    `json:"used_bytes"`
	AllBytes     int64    `json:"all_bytes"`
	Throttle     []string `json:"throttle,omitempty"` // why clocks are lower than they could be
	Health       string   `json:"health"`             // "healthy", or what is wrong
	Healthy      bool     `json:"healthy"`
}

// Direct is models on one device, without a scheduler, and the same on the CPU.
type Direct struct {
	Models []Model
	Driver cuda.Driver // with Runtime: to queue work past the device
	Index  int         // of the device
	// Runtime loads a model once more.
	Runtime cuda.Runtime
	GPU     executor.Device // indices are those of Models
	CPU     executor.Device // indices are Model.CPU; nil: NoCPU says why
	NoCPU   string
	Refused []error // models that the device did not take
	// Alloc gives memory that the device copies from and to, pinned; Free takes it back.
	Alloc func(bytes int) ([]byte, error)
	Free  func([]byte)
	Close func() error
	// PieceMost bounds what is copied at a time where the link's peak is looked for; 0: nothing does. A device in
	// software needs no large pieces, and a processor that is busy takes seconds for them.
	PieceMost int
}

// Model is one to measure.
type Model struct {
	cuda.Model
	// Item is the i-th input, as slabs have it; there are Items of them that differ.
	Item  func(i int) []byte
	Items int
	CPU   int // its index on the CPU, or that of the model it was converted from
	// Compare tells how far one item's outputs are from those that are right. They may
	// differ by Tolerance, relatively; Argmax: and must have the largest number at the same place.
	Compare   func(got, want []byte) (Difference, error)
	Tolerance float64
	Argmax    bool
}

// Difference is how far outputs are from each other.
type Difference struct {
	Relative float64 // the largest, over the largest number of its tensor
	Where    string  // that is
	Argmax   bool    // the largest number of each tensor is at the same place
}

// System is a whole system in this process, links over TCP loopback.
type System struct {
	Client    *frontend.Client
	GPUs      int
	Policies  []string // what Use takes; the first is how it serves
	Workloads []Workload
	Input     func(model string) load.ModelInput
	// Use starts the scheduler anew with a policy, and waits until it serves.
	Use   func(ctx context.Context, policy string) error
	Close func() error
}

// Workload is models that get equally many requests, at random.
type Workload struct {
	Name   string
	Models []string
}
