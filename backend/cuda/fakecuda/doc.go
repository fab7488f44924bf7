// Package fakecuda is NVIDIA GPUs in software: cuda.Driver for tests that must run where
// there is no GPU, and for faults that no GPU can be asked for; and a cuda.Runtime that is
// a table of Go functions.
//
// # Place
//
// A test makes a Driver, hands it to what it tests in place of cgo/cuda, and keeps it, and
// its GPUs, to break things, to count what is open, and to ask at the end for misuse.
//
// # What is as on a real device
//
//   - A stream is a goroutine that takes work in order; calls only queue it. Copies move
//     real bytes between the host's memory and the device's, which is memory of the host,
//     at addresses that mean nothing to it.
//   - There is one engine for copies in, one for copies out, one for kernels: each does one
//     thing at a time, in the order in which streams come to it. Copies overlap kernels.
//   - Devices of one process have one primary context each. All that opened one share what
//     happens to it: after a failed kernel all calls are ErrLost until all have closed it.
//   - Memory of the host that is not pinned is copied while the caller waits; it is counted.
//
// # Time
//
// Work takes what Config and Kernel.Time say, or what a kernel's function really took if
// that is longer. The device's time follows from that alone: a goroutine that was scheduled
// late makes the host see the end late, and changes no mark of an event. It never runs
// before the host's clock.
//
// # What is stricter, so that a test sees what a GPU would forgive
//
//   - A call from a thread whose context is another; use after Close, double Close; Close of
//     a context of which something is open; memory that is freed while queued work uses it;
//     two streams at work on one piece of memory at once, of which one writes: each is an
//     error, and Driver.Misused has it, too, if the error got lost.
//   - Data moves at a copy's end: who changes the host's side before sends what he should not.
//     The host's memory is Go's, so that the race detector sees it as well.
//   - New device memory is full of nonsense. Events and streams of two devices do not mix.
//
// # What is simpler
//
//   - urgent streams are like others. A copy needs no room in a queue of the device.
//   - Enter of a lost context succeeds, and what was made of it is gone once it is closed,
//     whether that returns ErrLost or not.
//
// # Ownership
//
// A lock and a condition per GPU guard all that belongs to it; Driver's own lock, taken
// after it, guards what the GPUs share: pinned memory, the threads' contexts, misuse.
package fakecuda
