// Package batching is one model's side of deferred batch scheduling: the
// queue of waiting requests, the candidate batch made of its front, and the
// drop policy (Symphony, sections 3.1 and 3.2, Algorithm 1, Figure 18).
//
//	          Push                      Candidate
//	request --------> queue --Update--> (size, exec, latest) --> rank
//	                    |
//	                    +--Take--> the finished batch, and what was shed for it
//
// A core: it is handed `now`, it reads no clock; it does not know what a
// request is beyond a slot number and a deadline.
//
// # The window
//
// For a batch of b requests with earliest deadline d:
//
//	frontrun = d - l(b+1)   before it, one more request would still fit
//	latest   = d - l(b)     after it, the batch is too late
//	earliest = now + delay(b), delay(b) = d_ctrl + d_data*b
//	exec     = max(earliest, frontrun - lead)
//
// A batch at the profile's largest size, or at the setting's cap (cap.go),
// cannot grow: its frontrun has passed.
// exec says when a GPU is asked for; the batch that Take finishes for it has
// nothing to wait for and starts at earliest, or when the GPU is free.
//
// The paper has lead = 0 (WindowFrontrun). Ours is learnt (opening.go) and
// more where GPUs are hard to get; and a batch that is nearly as efficient as
// any can be asks at once (target.go, ripe). Neither has a parameter for the
// operator.
//
// # Invariants
//
//  1. The queue is ordered by deadline, so the front of any length holds the
//     requests that are due first and d is the first one's deadline, also when
//     requests of one model carry different SLOs. Of those due at the same instant
//     the higher priority goes first, and then who came first.
//  2. A candidate of size b can start at now + delay(b), or at the floor, and meet d.
//  3. NextWake is the first instant at which 2 stops being true: Update then
//     forms a smaller candidate or drops the head. It is never in the past
//     after an Update, so no loop spins at one instant.
//  4. Update drops only requests that can no longer be served alone; nothing
//     is shed for others' sake before a GPU is there for them (Take), but under the setting Shed.
//  5. No candidate and no batch starts before the floor (floor.go).
//
// # Drop policies
//
//   - head: drop only what cannot make it alone. Under overload every head is
//     old, little time is left, batches shrink to one: the served rate
//     collapses (Clockwork's curve in Table 2 of the paper).
//   - target (default): when a GPU is granted and more requests wait than fit
//     behind an old head, skip old heads while the batch is too small to carry
//     the arrivals and the larger one pays for them (drop_policy.go).
//
// Under the setting Shed heads are given up earlier still (early.go), as Nexus's window does. That throws requests away
// while all GPUs are busy, and a GPU that becomes free early could have served them; but it fills batches where far more comes
// than is served.
//
// # Rejected
//
// Shedding below the staggered batch, whatever the load: where that batch
// cannot be had (bursts, many models), each head is shed for nothing.
package batching
