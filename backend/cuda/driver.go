package cuda

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Driver is what this package needs of the CUDA driver. cgo/cuda is the real one,
// backend/cuda/fakecuda one in software; backend/cuda/drivertest holds both to this contract.
type Driver interface {
	// Devices lists what this process may use, in CUDA's order: CUDA_VISIBLE_DEVICES
	// holds, and MIG instances are devices. An *UnsupportedError says what is missing.
	Devices() ([]Info, error)
	// Open retains a device's primary context, which ONNX Runtime uses, too.
	Open(index int) (Context, error)
}

// Info describes a device.
type Info struct {
	Index           int    // CUDA's, in this process
	Name            string // of the product, "NVIDIA H100 80GB HBM3"
	UUID            string // "GPU-..." or "MIG-...", as NVML and CUDA_VISIBLE_DEVICES write it
	PCI             string // "0000:3b:00.0"
	Major, Minor    int    // compute capability
	Multiprocessors int
	Memory          int64 // bytes
	NUMANode        int   // -1: unknown
	DriverVersion   int   // newest CUDA that the driver serves: 13000 is 13.0
}

// Ptr is an address in a device's memory.
type Ptr uint64

// Context is one device. But for Info, and Close, which comes when no other call is under way,
// all calls come from threads that have Entered it and are locked to their goroutine
// (runtime.LockOSThread); On does both.
type Context interface {
	Info() Info
	// Enter makes the context the calling thread's, a lost one, too: what was made of it is
	// to be closed. That may return ErrLost, and is done. From then on the thread's calls go
	// on while another thread captures a graph.
	Enter() error
	// Memory is what is free and what there is on the device, bytes.
	Memory() (free, total int64, err error)
	// Alloc gives device memory; an error that Is ErrMemory: there is not enough.
	Alloc(bytes int64) (Ptr, error)
	Free(Ptr) error
	// HostAlloc gives pinned memory of the host, page-aligned, which all devices reach.
	HostAlloc(bytes int) ([]byte, error)
	HostFree([]byte) error
	// HostRegister pins memory outside the Go heap that is there already, such as what
	// an RDMA device reaches. What was registered before is an error.
	HostRegister([]byte) error
	HostUnregister([]byte) error
	// NewStream makes a queue of work that waits for no other. urgent: before the others'.
	NewStream(urgent bool) (Stream, error)
	// NewEvent makes a mark to put into streams. A thread that waits for it sleeps.
	NewEvent() (Event, error)
	// Close releases the context, once all that was made of it is closed.
	Close() error
}

// Stream is work in order. Calls only queue work, but for Synchronize. An error of work
// that was queued earlier may come back from any later call.
type Stream interface {
	// CopyIn copies to the device, CopyOut from it. Memory of the host is pinned, else the
	// call waits; neither side may change before the stream is past it.
	CopyIn(to Ptr, from []byte) error
	CopyOut(to []byte, from Ptr) error
	// Record marks that all that is queued here now is done; the event's last mark counts.
	Record(Event) error
	// Wait holds what is queued after it until the event's mark at this call is reached.
	Wait(Event) error
	// Synchronize waits until all is done.
	Synchronize() error
	// EndCapture ends a capture as a graph that a library has begun here and left open, and
	// drops it. Where there is none it does nothing.
	EndCapture() error
	// Handle is the CUstream.
	Handle() uintptr
	Close() error
}

// Event is a mark in a stream.
type Event interface {
	// Done reports whether the mark has been reached; true when it was never recorded.
	Done() (bool, error)
	// Synchronize waits for that.
	Synchronize() error
	// Since is the device's time from the mark of an earlier event, to about 1 us.
	Since(earlier Event) (mono.Dur, error)
	Close() error
}

// Errors of a Driver, by errors.Is.
var (
	// ErrMemory: the device has not enough memory for it. It goes on.
	ErrMemory = errors.New("out of device memory")
	// ErrModel: the model refuses the batch, for what its inputs hold. The device is well.
	ErrModel = errors.New("the model fails on this batch")
	// ErrLost: nothing more can be done with this context: a kernel failed (illegal
	// address, assertion), memory had an uncorrectable error, or the device is gone.
	ErrLost = executor.ErrLost
	// ErrCapture: a Runtime cannot capture the model as CUDA graphs, and may be able to run it without.
	ErrCapture = errors.New("it cannot be captured as CUDA graphs")
	// ErrRegistered: the memory is registered already.
	ErrRegistered = errors.New("memory is registered already")
)

// UnsupportedError: CUDA cannot be used here.
type UnsupportedError struct {
	What string // that is missing
	Need string // what to do
}

// Error says both.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("no CUDA: %s: %s", e.What, e.Need)
}

// Runtime computes: ONNX Runtime, or a table of functions in tests.
type Runtime interface {
	// Load makes a model ready to run on the context's device, with its kernels queued on
	// the stream. An error that Is ErrMemory: it does not fit; ErrCapture, also of first runs:
	// it is worth another try with GraphsOff.
	Load(c Context, s Stream, m *Model) (Program, error)
}

// Program is a loaded model. One thread, that of the device, calls it.
type Program interface {
	// Bind fixes where the inputs and outputs of batches of a size lie, tensor by tensor,
	// each with its items back to back. It is called once for a (slot, size), before Run.
	Bind(slot, size int, in, out []Ptr) error
	// Run queues such a batch on the stream, and may wait until it is done. It allocates nothing.
	Run(slot, size int) error
	// Memory is what the model holds of the device, bytes, as far as it is known.
	Memory() int64
	Close() error
}
