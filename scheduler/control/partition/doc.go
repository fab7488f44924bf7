// Package partition divides models among sub-clusters (Symphony, section 4.4 and appendix A).
//
//	Problem --New--> Search --Run(steps), Run(steps), ...--> Best --Solver, its own limit--> Result
//	   |                                                                                      |
//	   +------------------------- Check: what every assignment must keep ---------------------+
//
// Every GPU of a sub-cluster has all models of the sub-cluster in its memory, so that it may run any
// of them. Two objectives:
//
//   - Balance is the paper's: requests/s and static memory as equal as can be, (3) to (9).
//   - GPUs is ours: what the sub-clusters need together. The sum of the models' needs is the same however they are
//     divided. Beyond it each sub-cluster takes GPUs for its bursts, and hardly more of them where it is large (gpus.go). So there
//     should be as few sub-clusters as memory and one rank loop allow, and in each models that suit each
//     other: long batches away from requests in a hurry.
//
// The constraints are the paper's under both: (4) the cap on requests/s, (5) static memory and the largest
// dynamic memory of a sub-cluster, (8) and (9) each model in one sub-cluster, (10) the bound on what
// changes cost.
//
// # The search
//
// A start by construction (longest processing time first; for GPUs the slowest models first), late-acceptance
// moves and swaps, and for Balance exchanges between two sub-clusters: all ways to give up to three models
// for up to three others, the nearest to what would make both equal looked up in a sorted list instead of
// drawn. (late.go, exchange.go)
//
// # Invariants
//
//  1. What Best returns passes Check, or is an *Infeasible that names the constraint and what mends it.
//  2. One problem and one seed have one result, whatever the order of the models: the search sees them sorted (view.go).
//  3. Run allocates nothing. Its work is counted in steps, about one candidate each; nothing here reads a clock.
//  4. Best never gets worse by more steps.
//
// # Units
//
// Rates are in requests/s, memory in bytes, needs in GPUs. Costs are in whatever the caller counts in: seconds
// of loading, bytes, models.
//
// # Rejected
//
// A solver from nothing: at the paper's size (800 models, 20 sub-clusters) its best after ten seconds is worse than random
// assignments. Random swaps alone: an order of magnitude behind the exchanges after ten seconds. Both are in figure 16 (bench/paper).
package partition
