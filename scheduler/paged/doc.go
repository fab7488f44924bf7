// Package paged matches candidates with GPUs where not every GPU has every model: the
// matchmaker of pools whose models do not fit into memory all at once (Clockwork joined with
// Symphony: deferral hides the load).
//
//	SetCandidate --> model timer at start - delay --> smallest holder free, with weights, by exec --> Grant
//	                             | none
//	                             v
//	                ready on each holder, by latest less head start; on one that
//	                still loads from `from - delay` on
//	                             ^
//	Done, Loaded --> GPU timer at free - delay --> its ready candidate due first -------------> Grant
//	Arrive, Doomed, Answer, Done --> residency: what to load where --> Loads, Unloads, Floors
//
// It has rank's calls, with `now` where residency needs it, and owns the Residency of its GPUs:
// whoever drives it carries out Loads and Unloads, tells the models their Floors
// (batching.Model.SetFloor), and reports with Loaded. A core: `now` is handed in, effects are
// appended to the caller's buffer.
//
// # Invariants
//
//  1. When a candidate's timer fires, at start - delay, the smallest of the model's holders g with
//     max(free of g, from of the model on g) <= start is granted. If there is none the model is
//     ready on all its holders, until it is granted or has another candidate. (The start is at once or,
//     deferred, the candidate's exec less a lead: patience.go, lead.go.)
//  2. When a GPU is within reach of an order, the candidate that is ready there with the least
//     latest, less its head start, is granted it and leaves the other GPUs' heaps, if its latest is
//     not before max(free, from). Else it leaves this one.
//  3. A holder that still loads counts from its `from` on: the planned end of the load and what
//     loads were lately late. A load that fails displaces the model.
//  4. No model is displaced from a GPU where it is granted or undone, but by a load that
//     fails, with a GPU that is lost, and when it is removed. A grant carries the generation of the weights that
//     it counts on; a backend that has another one refuses the batch.
//  5. A call costs O(k * (log M + log G)) for k holders of its model, at most residency's
//     Config.Copies, and what residency's does. None allocates in steady state.
//  6. A GPU that is lost loses what it holds, a new life begins with what its backend tells.
//
// And as for rank: a model has at most one grant under way, and a GPU; what a GPU
// is free from, and how many batches it may have, is package devices'.
//
// # Floors
//
// While all holders of a model are loading, no batch of it starts before the first of them is
// done: that is the model's floor, so that its candidate is what can run then, its timer
// fires for that instant, and what that load comes too late for is dropped at once. Where
// no load can help at all, residency says so by a floor of its own.
//
// # Best effort
//
// As rank lends idle GPUs to requests without deadlines, so do these GPUs, to models that they hold (fill.go). A step looks at all GPUs
// that are idle. Who is on none, or has more waiting than its GPUs serve, is loaded where that harms nobody with a deadline (furnish.go).
//
// # Early candidates
//
// What starts before deferral alone would start it, by Config.Eager, for pages are short, or by Candidate.Hold, takes any
// holder; with WholeDeferral no candidate's Hold counts. Rejected: GPUs that are kept anyway (rank's
// headroom), for who holds a model is what keeps a GPU here, and loads go to low ids.
//
// # Rejected
//
// One heap of all ready models, walked by each GPU past those that it does not hold: with
// thousands of models nearly all of them are passed. Heaps that are put right only when a GPU
// looks at them (stale keys): a candidate that grows is due earlier, and would be
// found too late.
package paged
