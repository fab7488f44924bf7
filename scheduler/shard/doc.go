// Package shard is the pure half of a model loop: the models of one loop,
// their requests, their timers, and the batches that are on GPUs (the
// ModelThread of Symphony's Figure 18, for many models).
//
//	Submit (Enqueue, Settle), Granted, --> Shard --> Out: Drops, Dispatches,
//	Completed, Lost, Wake                                 Answers, Candidates
//
// A core: the engine and the simulator call it with `now` and carry out the
// effects that it appends to an Out.
//
// # Invariants
//
//  1. A request that Submit accepted lies in one slot until it leaves by
//     exactly one way: in Drops, in Moved, or by Completed of its batch.
//  2. A slot is free, or queued in its model, or in a batch's list: never two.
//  3. After every call but Enqueue, which Settle completes, NextWake is later
//     than now, or Never.
//  4. Candidates has the last candidate of each model that the call changed.
//  5. No call allocates in steady state; slots and batches are bounded.
//
// # Best effort
//
// Requests of wire.ClassBestEffort have a queue of their own in their model (effort.go). Wishes tells when it begins and ends to be
// empty; Fill answers a GPU that is lent. Of the slots they take no more than half.
//
// # Lost GPUs
//
// Lost(gpu, life) puts the unanswered requests of the batches there back into
// their queues: their inputs still lie in the frontends' memory. Those that
// can no longer make it are dropped as backend_lost. Grants of a lost life that
// are still on their way are refused.
package shard
