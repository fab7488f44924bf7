package cuda

import (
	"runtime"

	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Model is what a Runtime loads.
type Model struct {
	Spec      *catalog.ModelSpec
	Path      string // of the ONNX file; empty where the Runtime needs none
	File      *File  // what lies there, in memory, for who loads it over and over; nil: it is read each time
	Precision Precision
	Provider  Provider
	Graphs    Graphs
	CPUNodes  bool           // what the provider does not run may run on the CPU, such as computations of shapes
	Memory    int64          // what it may take of the device while it runs, bytes; 0: what there is
	Weighed   int64          // what it is known to take of the device once it is loaded, bytes; 0: it has not been weighed
	Warmup    *warmup.Inputs // of first runs
	// Busy reports whether the device serves others: first runs leave it alone for a while then. nil: they
	// do not, requests may wait for the model.
	Busy  func() bool
	Sizes []int // the batch sizes that it runs, ascending, the last one Spec.MaxBatch (Ladder)
}

// Precision is how a model computes on the device.
type Precision string

// Precisions. Inputs and outputs keep the types of the specification.
const (
	FP32 Precision = "fp32" // as the file says, without TF32
	TF32 Precision = "tf32" // matrix products of float32 with 10 bits of mantissa
	FP16 Precision = "fp16" // a file whose weights were converted
)

// Graphs says whether each batch size is captured once as a CUDA graph, which then runs by one
// launch: a third of the time for small kernels (docs/decisions/0064).
type Graphs string

// When to use them.
const (
	GraphsAuto Graphs = ""   // where a model can be captured
	GraphsOn   Graphs = "on" // a model that cannot is refused
	GraphsOff  Graphs = "off"
)

// Provider is what ONNX Runtime computes with.
type Provider string

// Providers.
const (
	ProviderCUDA     Provider = "cuda"     // also where it is empty
	ProviderTensorRT Provider = "tensorrt" // builds an engine per model, for minutes; then faster
)

// On calls f on a thread that has entered the context.
func On(c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Enter(); err != nil {
		return err
	}
	return f()
}
