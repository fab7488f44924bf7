// Package gaps decides who of those that have no deadline may run on a GPU that nobody with a deadline wants for a while, and
// for how long.
//
//	Set(Wish) -----> models that wait, by GPU time taken and by how long they take at least
//	                     |
//	idle GPU, gap -----> Pick: least taken of those that fit --> Lend --> Answer: GPU time is charged
//
// Requests with deadlines leave gaps: GPUs that are more than are needed, and, because candidates are deferred, GPUs that
// are free until a known instant. scheduler/rank and scheduler/paged own a Gaps each, and look for gaps where they have granted
// nothing; the queues are scheduler/shard's.
//
// # How long a batch may be
//
// The matchmaker tells the instant by which a GPU is wanted: the exec of the first of the candidates that stand for which, with those
// due before it, too few other GPUs would be free. The batch ends by then, so nobody who is there waits for it. Who comes later
// may: so the batch takes half of the least slack (SLO - l(1)) of the models that ran in the last minute at most. Neither
// holds where enough GPUs are left without this one (bounds.go).
//
// # Who is next
//
// Of the models whose shortest batch fits, the one that has had the least GPU time: what idle GPUs give is shared evenly among those
// that ask, however much each asks for. A model that asked for nothing has no claim for that time: it begins with what
// the one that was served last had. So a model that waits is passed only by others that have had less, or that fit into gaps into which it
// does not; it is the first whom a gap of its length serves.
//
// # Invariants
//
//  1. A model that waits is in the trees of all places where it may run, and nobody else.
//  2. A model has at most one grant under way.
//  3. A call costs O(log M), and for each place of its model; a wish of a model that is new O(M). None allocates in steady
//     state.
//
// # Rejected
//
// The oldest head first: a model with a long queue has the oldest head until the queue is short, and others wait for it.
//
// Preemption: a batch that runs cannot be stopped on a GPU without losing what it did, and backends have no such order.
package gaps
