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
// Where there are several schedulers, each is a cell: a link and a Lead, with plans of its own. A
// spread.Spread says which Lead knows of which model; one counter numbers all plans.
//
// # What stops when
//
//   - The store is away: nothing is added or changed, and after its lease's end nobody leads.
//     Answers come from the view, and say so. What is served goes on; so do models that have
//     been ordered.
//   - No controller runs: the same.
//   - The scheduler is away: wishes are taken, and wait. One of several: those of its models.
//
// # Goroutines
//
// One for each table follows its watch into the view. One campaigns; while it leads, it is the loop that
// owns the lead.Leads and the Spread. A partition is computed beside it. Each link has its own.
package controller
