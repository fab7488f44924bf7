// Package drivertest is the conformance suite of cuda.Driver: the GPUs in software of
// backend/cuda/fakecuda and the driver's own behind cgo/cuda pass the same cases, so that
// what is tested on the first holds on the second.
//
// No case asserts a duration; where one must be shorter than others together, the margin
// is wide and the best of several tries counts. Every case closes all that it opened and
// checks that no goroutine is left behind. It needs 256 MiB of the device's memory.
package drivertest
