// Package nvml is the only door to NVIDIA's management library: it implements
// telemetry.NVML by github.com/NVIDIA/go-nvml.
//
//	telemetry.Monitor --> telemetry.NVML --> this package --> go-nvml --dlopen--> libnvidia-ml.so.1
//
// The library comes with the driver and is looked for when Open is called, so one binary
// starts on all hosts; where it is missing, or the driver is not loaded, Open returns a
// *telemetry.UnsupportedError that says what to do. Without cgo it always does
// (nvml_stub.go).
//
// Invariants:
//  1. No function is called that the library may not have: go-nvml's calls are bound when
//     they are first made, and one that is not there would end the process. What is not
//     there is unknown, like what a device does not support.
//  2. A device is found by its UUID, by going through the indices: the library's own
//     look-up by UUID fails for all GPUs when one of them is lost.
//  3. A handle that failed is looked for anew, but at most every rescanEvery: the driver
//     takes its time over a GPU that does not answer.
package nvml
