// Package nvml is the only door to NVIDIA's management library: it implements
// telemetry.NVML by github.com/NVIDIA/go-nvml.
//
//	telemetry.Monitor --> telemetry.NVML --> this package --> go-nvml --cgo--> trampolines --> libnvidia-ml.so.1
//	                                                                          (our nvml...)     by dlopen
//
// The library comes with the driver and is looked for when Open is called, so one binary
// starts on all hosts; where it is missing, or the driver is not loaded, Open returns a
// *telemetry.UnsupportedError that says what to do. Without cgo, or on another system than
// Linux on amd64 and arm64, it always does (nvml_stub.go).
//
// go-nvml leaves NVML's functions unresolved, and tells the linker to accept that: where
// symbols are bound as the process starts (-z now, LD_BIND_NOW), it ends there. So the
// functions are ours (trampolines.c): each jumps where dlsym has found NVML's.
// docs/decisions/0034 has the reasons.
//
// Invariants:
//  1. No symbol nvml... is unresolved in the binary, and none can be seen by libraries.
//  2. The library is loaded before go-nvml opens it, by the same name, and stays when
//     go-nvml closes it: the trampolines lead into it.
//  3. Any function may be called: one that the library has not returns
//     ERROR_FUNCTION_NOT_FOUND, before the library is loaded ERROR_UNINITIALIZED. What is
//     not there is unknown, like what a device does not support.
//  4. A device is found by its UUID, by going through the indices: the library's own
//     look-up by UUID fails for all GPUs when one of them is lost.
//  5. A handle that failed is looked for anew, but at most every rescanEvery: the driver
//     takes its time over a GPU that does not answer.
package nvml
