// Package soak runs a whole cluster for a long time under load and faults, and
// checks that it stays predictable.
//
//	load (Go clients, HTTP) --> links (proxies) --> frontends, scheduler, backends
//	  |                            ^                        ^
//	  v                            |        faults          |
//	ledger, windows, usage         +---- plan of a seed ----+
//
// The parts are processes of the symphony binary on loopback ports; links between
// them run through small TCP proxies in this process, which delay, stall and cut.
//
// Who checks does not send, and who sends does not check:
//
//  1. The ledger demands one answer for each request, and that an output begins with
//     what its own request's input began with (an emulated GPU echoes it).
//  2. Windows say when a fault and the recovery from it were under way. Outside of
//     them each model must keep its SLO at p99 and have less than 1 % bad requests.
//  3. Usage compares each process with itself, after its warm-up and at the end:
//     memory, files, goroutines, threads; at the end nothing may be held.
//  4. A part that ends by itself, or that does not come back, is a failure.
//
// The plan is pure: one seed, one plan. What happens to requests is not, for the
// processes run in real time.
//
// It refuses to excuse: a request is inside of a window only if a fault was open
// between its sending and its answer, and windows that last longer than they may are
// failures by themselves.
package soak
