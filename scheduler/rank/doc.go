// Package rank matches candidates with GPUs (Symphony, section 4.2 and the
// RankThread of Figure 18).
//
//	SetCandidate ----> model timer at exec - delay --> free GPU, smallest id --> Grant
//	                             | none is free by exec
//	                             v
//	                   ready, by latest less head start
//	                             ^
//	AddGPU, Done ----> GPU timer at free - delay ----> ready candidate due first --> Grant
//	GPUFree (the answer to a grant) sets when the GPU is free again
//
// A core: `now` is handed in, grants are appended to the caller's buffer.
//
// # Invariants
//
//  1. A model is in at most one of: timers, ready (or long), granting. So it has at most
//     one grant under way, and its candidate is the one informed after it.
//  2. A GPU that is granted, full of undone batches, or gone has the free time
//     Never in the table; no rule can match it.
//  3. Among the GPUs free by a candidate's exec, the one with the smallest id
//     is granted: load gathers on low ids, GPUs with high ids stay idle.
//  4. At most Outstanding batches of a GPU are undone. A GPU that is late or
//     hung gets one more batch queued behind, and then nothing until it reports.
//  5. Every call costs O(log M + log G), and none allocates in steady state.
//
// Invariants 2 and 4, and GPUs that come and go, are package devices': paged pools
// share them. That any GPU can run any model (3 and 5) holds of resident pools alone.
//
// # Best effort
//
// A model that has requests without deadlines (SetWish) is lent an idle GPU in a Step that grants nothing, until the next candidate
// that finds no other one (fill.go, package gaps). It is bookkeeping of its own: without a wish nothing of it is there.
//
// # GPUs that are left to others
//
// Under SetRoom candidates of models with slack to spare wait in a heap of their own, for GPUs below an id, and those
// above are left to models that cannot wait (room.go). Only onGPUTimer has to choose between the two heaps.
//
// # Who goes first
//
// Of those that wait, who is due first, but for head starts; under SetCheap whose requests take least (cheap.go).
package rank
