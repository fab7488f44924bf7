// Package schedbench measures the scheduler alone, as section 5.5 of the paper
// does: requests and GPUs are objects of this process, nothing is sent over a
// network. `symphony bench scheduler` wires it.
//
//	                 engine (as it serves)
//	world --Submit--> model loops <--> rank loop        Live, Search
//	  ^                   | Dispatch, Drop
//	  +---- ring of runs -+
//
//	tape --> shard.Shard <--> rank.Rank, virtual clock   Cores, Parallel
//	stage costs --> what more loops would do             Scaling
//
// The world is everything outside the scheduler on one thread: it offers the
// requests that are due, ends the batches that are over, and sleeps a quantum.
// So a machine of two cores runs a model loop, the rank loop, and the world.
//
// # Invariants
//
//  1. A request is stamped with the instant at which it was meant to arrive. What
//     the world is late counts against the scheduler, never in its favour.
//  2. A GPU runs one batch at a time: a batch starts when it was dispatched, when
//     its exec has come, and when the GPU's previous batch is over, whichever is
//     last, and takes l(b) (gpus.go).
//  3. Every request offered has one outcome: served in time, served late, or
//     dropped. Result.Unanswered says how many had none; it must be 0.
//  4. Nothing is allocated per request or per batch, by the world or the Sink.
//
// # Load
//
// Arrivals are drawn before the run (package workload, a tape of a million gaps in
// units of the mean), and every pass over the tape begins at another place. The
// latency profile is made for the rate, so that any number of GPUs carries it at
// the same utilisation and batch size (load.go); or it is a model of the zoo.
//
// # Rejected
//
// A goroutine and a timer for each batch, as the engine's tests do: at 50,000
// batches/s the Go scheduler would be what is measured.
//
// Ends decided by the world: a batch's end follows from its dispatch alone, so the
// model loop's thread computes it in the Sink, where the requests' deadlines are
// at hand; the ring then carries 32 bytes a batch and no request.
package schedbench
