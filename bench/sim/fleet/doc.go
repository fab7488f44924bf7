// Package fleet simulates a cluster of many sub-clusters through a day, under one virtual clock.
//
//	catalogue, course of the day --> needs --> Epochs --> Partitioner --> plan.Rollout --steps--> world
//	                                                                          ^                    |
//	                                             results, facts, failures ----+        Day.Log, Ticks, Epochs
//	                                                                                               |
//	             Day.Windows --> Simulate: the cores that serve, request by request <--------------+
//
// # Two levels
//
// The control plane's day is simulated step by step: each load, unload, route, drain, seat and
// measure takes its time, fails, or is never heard of again; GPUs die and come back, the catalogue
// changes, controllers are killed. Needs and rates are reckoned there (batching.Need), at ticks
// of half a minute: a day has more requests than can be simulated.
//
// Stretches of that day are simulated request by request, at the full rate: the schedulers of all
// sub-clusters that the stretch has, with the models and GPUs that the day's log says, and with
// the routes, drains, seats and deaths that fall into it. A model that moves takes along what waits
// for it; a GPU that drains ends what it has; one that dies loses it. A stretch begins with a
// warm-up that is not counted.
//
// What is left out of a stretch: the network, jitter, and the delay until a GPU's death is noticed
// (package sim has these), and the time that a GPU loses to loads beside its batches.
//
// # Invariants
//
//  1. One seed gives one day and one result of each window, to the byte.
//  2. A request has one answer: one that is without any when a window ends counts as lost.
//  3. The world checks what package plan promises, at every step (invariants.go).
//
// # Rejected
//
// A thinned day, with a thousandth of the rates: batches do not gather at such rates, so need,
// goodput and what a move costs would all be others.
package fleet
