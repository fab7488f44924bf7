// Package devices is what matchmakers share: the GPUs of a sub-cluster with what
// was planned and reported of them, and what its models wanted of them lately.
//
//	Add, Remove, Done ---> Table <--- Grant, Answer
//	                         |
//	                         +--> who is free by when, shares, head starts, the need
//
// rank matches with any GPU of it, paged with those that hold a model's weights.
// A core: `now` is handed in.
//
// # Invariants
//
//  1. A GPU that is granted, full of undone batches, or gone has the free time
//     Never in the tree; no rule can match it.
//  2. At most Outstanding batches of a GPU are undone. A GPU that is late or
//     hung gets one more batch queued behind, and then nothing until it reports.
//  3. Every call costs O(log G), but a look at the need once a second, and none
//     allocates in steady state.
//
// # GPUs that come and go
//
// Each life of a GPU has a number (Life). Grants carry it, answers and reports
// bring it back: what refers to an earlier life is ignored.
//
// # Rejected
//
// Two heaps for GPUs (busy by free time, idle by id): a GPU "idle by exec" for
// a candidate with a long delay is not for one with a short delay, so the
// heaps disagree. A tournament tree over ids answers both questions exactly:
// the smallest id free by t, and the GPU that is free first.
package devices
