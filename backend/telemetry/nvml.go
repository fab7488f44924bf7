package telemetry

import (
	"encoding/json"
	"errors"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// NVML is what this package needs of NVIDIA's management library. cgo/nvml is the real
// one, backend/telemetry/fakenvml one in software. Calls may come from many goroutines.
// A device is named by its UUID, which outlives handles and indices.
type NVML interface {
	// Versions are those of the driver.
	Versions() (Versions, error)
	// Devices lists the GPUs of the host in NVML's order, each followed by its MIG
	// instances. CUDA_VISIBLE_DEVICES does not matter here. One that cannot be asked has
	// only its Index, and Err says why.
	Devices() ([]Device, error)
	// Sample reads what changes, in some milliseconds. An error that Is ErrGone: the device
	// has fallen off the bus, or is not in the list.
	Sample(uuid string) (Sample, error)
	// Throughput measures the PCIe link, for some 40 ms.
	Throughput(uuid string) (Throughput, error)
	// WaitXID waits for an error that the driver tells of any GPU. An error that Is
	// ErrTimeout: there was none.
	WaitXID(timeout mono.Dur) (XID, error)
	// Close ends the library, when no other call is under way.
	Close() error
}

// Errors of NVML, by errors.Is.
var (
	ErrGone    = errors.New("the GPU is not there")
	ErrTimeout = errors.New("no event")
)

// UnsupportedError says that NVML cannot be used here and what it would take.
// errors.Is(err, errors.ErrUnsupported) holds.
type UnsupportedError struct {
	What string // that is missing
	Need string // what to do
}

// Error says both.
func (e *UnsupportedError) Error() string { return "no NVML: " + e.What + ": " + e.Need }

// Is makes it errors.ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// Maybe is a value that not every device, driver or user gets.
type Maybe[T any] struct {
	Value T
	Known bool
}

// Known is a value that is there.
func Known[T any](v T) Maybe[T] { return Maybe[T]{v, true} }

// MarshalJSON writes null for what is unknown.
func (m Maybe[T]) MarshalJSON() ([]byte, error) {
	if !m.Known {
		return []byte("null"), nil
	}
	return json.Marshal(m.Value)
}

// Versions of what the driver brought.
type Versions struct {
	Driver string `json:"driver"` // "550.54.15"
	CUDA   string `json:"cuda"`   // the newest that it serves: "12.4"
	NVML   string `json:"nvml"`   // "12.550.54.15"
}

// Device is what does not change of one.
type Device struct {
	Index  int    `json:"index"` // NVML's; of a MIG instance within its GPU
	UUID   string `json:"uuid"`  // "GPU-..." or "MIG-...", as CUDA writes it
	Name   string `json:"name"`  // of the product, "NVIDIA H100 80GB HBM3"
	PCI    string `json:"pci"`   // "0000:3b:00.0"
	Parent string `json:"parent,omitempty"`
	// Of a MIG instance: its GPU's UUID (Parent), its id there, its profile ("1g.10gb").
	Instance int    `json:"instance,omitempty"`
	Profile  string `json:"profile,omitempty"`
	MIG      bool   `json:"mig,omitempty"` // a GPU in MIG mode: only its instances compute
	Err      error  `json:"-"`
}

// Sample is what was seen of a device at an instant.
type Sample struct {
	MemoryTotal Maybe[uint64] `json:"memory_total"` // bytes
	MemoryUsed  Maybe[uint64] `json:"memory_used"`  // bytes, what the driver keeps included

	Busy       Maybe[int] `json:"busy"`        // % of the time a kernel ran, of the last sixth of a second to a second
	MemoryBusy Maybe[int] `json:"memory_busy"` // % of that time memory was read or written

	Power       Maybe[float64] `json:"power"`       // watts
	PowerLimit  Maybe[float64] `json:"power_limit"` // watts, enforced
	Temperature Maybe[int]     `json:"temperature"` // degrees Celsius

	SMClock        Maybe[int] `json:"sm_clock"`         // MHz
	SMClockMax     Maybe[int] `json:"sm_clock_max"`     // MHz
	MemoryClock    Maybe[int] `json:"memory_clock"`     // MHz
	MemoryClockMax Maybe[int] `json:"memory_clock_max"` // MHz

	Throttle Maybe[health.Reasons] `json:"throttle"`

	// Memory errors that ECC corrected or could not, since the driver was loaded (volatile)
	// and in the GPU's life (aggregate).
	CorrectedVolatile    Maybe[uint64] `json:"ecc_corrected_volatile"`
	UncorrectedVolatile  Maybe[uint64] `json:"ecc_uncorrected_volatile"`
	CorrectedAggregate   Maybe[uint64] `json:"ecc_corrected_aggregate"`
	UncorrectedAggregate Maybe[uint64] `json:"ecc_uncorrected_aggregate"`
	Remapped             Maybe[Remap]  `json:"remapped_rows"`

	PCIe Maybe[Link] `json:"pcie"`

	Processes Maybe[[]Process] `json:"processes"` // that compute
}

// Remap is about the rows of memory that were replaced.
type Remap struct {
	Corrected   int  `json:"corrected"`   // for errors that were corrected
	Uncorrected int  `json:"uncorrected"` // for errors that were not
	Pending     bool `json:"pending"`     // one more with the next reset
	Failed      bool `json:"failed"`      // one had no replacement
}

// Link is the PCIe link's state. A GPU that rests may lower its generation.
type Link struct {
	Generation    int           `json:"generation"`
	Width         int           `json:"width"` // lanes
	GenerationMax int           `json:"generation_max"`
	WidthMax      int           `json:"width_max"`
	Replays       Maybe[uint64] `json:"replays"` // packets that were sent again
}

// Throughput is what passed the PCIe link, by bytes a second of a 20 ms span.
type Throughput struct {
	Sent     Maybe[uint64] `json:"sent"` // from the GPU
	Received Maybe[uint64] `json:"received"`
}

// Process has a compute context on the device.
type Process struct {
	PID    int           `json:"pid"`    // in NVML's namespace: in a container it may be the host's
	Memory Maybe[uint64] `json:"memory"` // bytes
}

// AnyInstance is of an XID that concerns a whole GPU.
const AnyInstance = -1

// XID is an error that the driver told.
type XID struct {
	UUID     string // of the GPU, never of an instance; empty: of which one is unknown
	Instance int    // of the GPU in MIG mode, or AnyInstance
	Code     uint64
}
