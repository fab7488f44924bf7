// Package policy is what a scheduler looks like to the shell that drives it:
// one interface for deferred batch scheduling and for the schedulers that the
// papers compare it with, so that all of them are measured by the same
// simulator over the same arrivals.
//
//	arrivals ---Submit---> Scheduler ---Dispatch, Preempt---> GPUs
//	GPUs -------Done-----> (Step when NextWake has come)
//
// The policies are cores, one package each. What serves is here: deferred,
// the cores of the live engine, shard and rank, which the tuner replays
// arrivals through. What only a simulator runs is in bench/policy:
//
//	tuned       deferred with a tuner beside it: Symphony as it serves
//	published   deferred by the rules of the authors' published code
//	eager       the same without waiting: dispatch when a GPU is free
//	timeout     TensorFlow Serving: a constant wait from the first arrival
//	clockwork   the strategy that must start first, one per batch size
//	cork        BentoML: eager, drops a head that what waits behind makes late
//	nexus       planned batch sizes, frontends that do not coordinate
//	shepherd    the largest batch first, and preemption
//
// # Rules for a Scheduler
//
//  1. Every submitted request leaves by exactly one way: in Drops, or in the
//     Dispatch of a batch that is neither preempted nor lost with its GPU.
//  2. After Step at now, NextWake is later than now, or Never. Step is due
//     when NextWake has come, whatever call made it so.
//  3. Nothing but the calls decides: no clock, goroutine or map order. Draws,
//     where a policy has any, come from Config.Seed.
//  4. A batch is of one model and for a GPU that is there. It is planned to
//     take what its profile says, from an instant at which its order can have
//     come (Config.Delay) and what the GPU got before is planned to be over, to
//     one by which none of its requests is overdue.
//  5. Where GPUs have pages (Config.Pages), a model is on a GPU from its Load on until
//     its Unload, and a GPU that begins its life holds none. A batch is for a GPU that
//     has its model, or has been told to load it; no model is unloaded that has a batch
//     there without a report, or a load under way; what is there never exceeds the pages.
//
// Package policytest checks the first four, by hand and at random, and each policy's
// tests use it.
//
// Queue and Ledger are what the baselines share: waiting requests by deadline,
// and the batches that run.
package policy
