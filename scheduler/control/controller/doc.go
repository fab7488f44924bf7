// Package controller is the control plane's process: it keeps what people want of models in
// the store, leads by a lease of it, and takes the scheduler's cluster to what is wanted.
//
//	Control (api) --writes--> store --watches--> view --> answers
//	                            ^                  |
//	                            |                  v
//	                            +---- effects -- lead.Lead <--facts, outcomes-- link --> scheduler
//
// Any number of controllers may run on one store: each answers the API from its view, and one
// leads. Only that one has a link to the scheduler, and all it writes holds only while it
// leads (store.Guard).
//
// # What stops when
//
//   - The store is away: nothing is added or changed, and after its lease's end nobody leads.
//     Answers come from the view, and say so. What is served goes on; so do models that have
//     been ordered.
//   - No controller runs: the same.
//   - The scheduler is away: wishes are taken, and wait.
//
// # Goroutines
//
// One for each table follows its watch into the view. One campaigns; while it leads, it is the loop that
// owns the lead.Lead. A partition is computed beside it. The link has its own.
package controller
