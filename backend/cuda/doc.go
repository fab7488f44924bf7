// Package cuda runs batches on NVIDIA GPUs: an executor.Device over the CUDA driver.
//
//	executor --Launch--> slot: pinned input --copy stream--> device input
//	                                                            | compute stream: Program
//	         <--Finish-- slot: pinned output <--out stream-- device output
//
// A device has two slots, each with device memory for the largest batch of any of its
// models. While one batch executes, the inputs of the next are copied in, and the outputs
// of the one before out: copies hide behind execution. Events order the streams and give
// the times; the host only queues work, from one locked thread, and waits on another.
//
// # Rules
//
//  1. One execution at a time, in the order of Launch.
//  2. Nothing is allocated for a batch: slots, bindings and events are made when models
//     are loaded, and every size that the plan can use has run once before the first request.
//  3. Each batch is finished exactly once, in order: with its times, or an error. Times are
//     the device's (events), translated to the host's clock at the batch's end.
//  4. Out of memory fails the batch; a lost device fails all of them and is told (Lost); a
//     batch that has not ended long after its time is a lost device, too.
package cuda
