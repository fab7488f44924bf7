// Package residency decides which models' weights are in the memory of which GPUs, for
// pools whose models do not fit all at once (Clockwork, section 5.3 and appendix B).
//
//	Arrive, Doomed ------------> demand d of each model --> shares a on its holders, loads l of GPUs
//	Began, Ended (in use, LRU)        |                                    |
//	                                  v                                    v
//	                          priority p = work that its holders cannot do in time
//	                                  | p > 0, and the loader of a GPU has less than 5 ms of work
//	                                  v
//	            Unload victims, Load, Place(model, GPU, from) ----> Loaded: from becomes real
//	                                  | no load can save the first requests
//	                                  v
//	                            Floor(model, t): no start before t
//
// A GPU's memory is pages of one size; a model takes a number of them, all or none. Which
// pages is the device's affair. Copying happens beside execution, one load after the
// other on each GPU: its loader.
//
// A core: `now` is handed in, effects are appended to the caller's buffer.
//
// # Life of a model on a GPU
//
//	absent --Load, generation + 1--> loading --Loaded--> resident --Unload, lost GPU--> absent
//	                                    \------ failed, lost GPU ------------------------> absent
//
// Pages are taken at Load and come back at Unload, at a failure, or go with the GPU.
// Load and Unload are orders to the device, in the order in which they are told:
// the pages of an Unload count for a Load of the same turn. Place and Displace tell the matchmaker.
//
// # Demand and priority
//
// d is the work of a model's waiting requests, a its share on each holder (loading ones
// count from their order on), sum a = d. The share is in proportion to capacity / l, where l is 1 ms and the shares of all
// other models there. Then
//
//	p = d' - sum over its holders of a' * capacity / l,   a' = a * d' / d
//
// where d' is the work of those requests that a load begun now could still help. So p is
// positive when the holders cannot do within the capacity (100 ms) what waits, and p = d'
// where nobody holds the model. d, a, l are exact; p is reckoned anew at each event of its
// model, as in the paper, and once more before it decides anything.
//
// Tight says when models that are wanted find no pages, for requests keep them: whoever matches has those run then.
//
// # Invariants
//
//  1. The shares of a model add up to its demand where anybody holds it, and to 0
//     elsewhere; l of a GPU is 1 ms and the shares on it. To the nanosecond.
//  2. The pages free on a GPU and those of its models are the pages that it has.
//  3. A model that is loading, held or in use on a GPU (Hold, Began) is not unloaded there.
//  4. At most Outstanding loads of a GPU are unreported, and one is begun only when those
//     before it have less than Ahead of work.
//  5. A generation is used once in all lives of a GPU, but for the weights that a life begins with (Adopt). What
//     refers to another one than the model has there is ignored; so are reports from before a GPU was lost, whose loads' numbers
//     are nobody else's (Config.Serial), and
//     so must the caller ends and releases (package paged knows batches by the GPU's life).
//  6. Floors of a model only rise.
//  7. No call depends on how many models there are but by a logarithm: k holders cost
//     O(k + log M), a choice of what to load looks at candidates in the order of their worth and
//     stops at the first that fits, after Looks of them at the latest. None allocates in
//     steady state.
//  8. A pinned model is never unloaded while it is known, and is on every GPU that has the pages, as soon as loaders and
//     what is in use allow.
//
// # Loads that fail
//
// Where the device failed at a load, or has not the model, the model's loads are planned twice as long for a while. Where it had no
// room or no time, its loader is left alone for Lag. What it says of its free pages is compared with what is
// reckoned (report.go).
//
// # Best effort
//
// Requests without deadlines are in no demand. The caller orders loads for them (LoadSpare, spare.go), which take what nobody else counts
// on, and whose weights are the first to make room.
//
// # What is left to the caller
//
// Which requests a batch takes: Began and Doomed take the first ones by their latest start.
// That is what schedulers do that serve by deadline; for others it is an estimate. And
// the pages of what runs (workspace, inputs) are not among the pages here.
package residency
