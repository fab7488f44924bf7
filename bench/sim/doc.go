// Package sim runs a scheduler under a virtual clock: the cores that serve,
// emulated GPUs, a network that delays, and arrivals from a seed or a trace.
//
//	workload.Source --arrivals--> network --> policy.Scheduler --batches--> network --> GPUs
//	                                               ^                                     |
//	                                               +------------- network <--- ends -----+
//
// At each instant things happen in one order: GPUs join and leave, batches
// end, messages arrive in the order they were sent, requests arrive, the
// scheduler steps until nothing is due. So one seed has one result, to the
// byte, on any machine: no map order, no clock, no goroutine, and floating
// point only where its rounding is fixed (package workload).
//
// # What is measured
//
// Requests are counted by their arrival, in [Warmup, Warmup + Duration). Each
// is served (its answer is back by its deadline), late, or dropped. Goodput
// counts a dropped request as infinitely late: a model's p99 is within its SLO
// when at most 1 % of its requests are bad. GPU time is counted over the same
// span.
//
// The need is what deferral alone would keep busy with what arrived
// (batching.Need). The driver reckons it for each second, whatever the policy
// does: with one seed it is the same for all of them.
//
// A batch counts when the scheduler has its report. When it is preempted, or its
// GPU is gone, before that, its work is lost and its requests are queued again:
// each request counts once (run.go).
//
// # Pauses
//
// A scheduler and devices may stand still now and then (Config.Pauses). The
// scheduler is not called before its pause ends; then its mailbox comes first, in
// order, with the instant of that end as now, and then its timers. Config.Margins
// learns from batches that end late, as the live engine does. Result.Hopeless
// counts what no policy could have saved.
//
// # Memory
//
// With Config.Paging GPUs hold weights in pages, and the scheduler (a policy.Loader) orders
// loads and unloads. Loads of a link take turns, beside what the GPU runs; a batch waits at
// its GPU for weights that are on their way. A load without pages fails, as at a device; a
// batch without its model, a load of what is there and an unload of what is used are bugs of
// the policy, and end the run with an error. A request is cold when no GPU has its model as
// it arrives.
//
// A workload.Closed source is told of answers: clients that wait for them.
//
// # Classes
//
// Models of wire.ClassBestEffort have no deadline. They are in no need, and lengthen no run; Result.ByClass and BusyByClass tell
// them apart. A policy that knows no classes takes their SLO for one.
//
// # What it costs
//
// Memory follows what is open at a time, not the length of the run. Profile
// and speed are in docs/simulator.md.
package sim
