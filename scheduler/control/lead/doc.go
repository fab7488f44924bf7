// Package lead is what a leading controller does, as a core: it turns what people want of
// models (package schema) and what the scheduler says (catalog.Facts) into plans, and a plan
// into orders. Events go in, effects come out; package controller carries them out.
//
//	SetModel, RemoveModel, Profile  --+                +--> Order     to the scheduler
//	Facts, Outcome, Lost            --+--> Lead, Step -+--> Partition to be computed aside; Partitioned brings it back
//	Apply, Pause                    --+                +--> Observed, Plans, Measured, to the store
//
// # From wishes to orders
//
//  1. Which versions shall be served follows from a model's policy (wanted.go).
//  2. They, their needs and the GPUs are a partition.Problem by device type; its result is a
//     plan.Plan (target.go). One sub-cluster on a type is the unplanned one: then models come
//     and go and no GPU moves, but to measure (profiles.go). Models that backends have of their own folders stay where they are.
//  3. A plan.Rollout takes the world there; its steps become orders, their outcomes its
//     results (orders.go). A roll-out goes on for ever: a GPU that comes later joins as the
//     plan says.
//  4. What became of each version is told, with the reason where it is not served (observe.go).
//
// # Invariants
//
//  1. All that matters is in the wishes, the last plan and the facts: a controller that takes
//     over goes on where the one before was, and one that is started twice orders nothing new.
//  2. Nothing is ordered before the first whole Facts: what is not known may be there.
//  3. What has not changed is not told again.
package lead
