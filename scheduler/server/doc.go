// Package server is the scheduler's process: who is there (frontends,
// backends, their devices and models), what can be asked for (the catalogue),
// and the links that carry requests to the engines and batches to the backends.
//
//	frontend link --Submit--> route table --> engine of the model's pool
//	engine --Dispatch--> pending of the backend --Flush, one Send--> backend link
//	engine --Drop------> pending of the frontend --Flush, one Send--> frontend link
//	backend link --Done--> engine
//
// # Rules
//
//  1. Devices of one type, on all backends, are a pool: one engine, one rank
//     loop (a sub-cluster of Symphony, section 4.1). Each of its devices has all
//     of the pool's models, so a backend whose model set differs from its
//     pool's is refused, with the difference. The last backend of a pool may
//     come back with another set.
//  2. GPU ids belong to (backend name, device), also for a minute after its end:
//     a restarted backend gets its old ids. A backend that registers under the
//     name of a live one replaces it: the old link is a half-dead one.
//  3. A backend hears of a frontend before the first batch that names it:
//     Members are sent under the same lock that admits, on the same link.
//  4. The request path takes no lock: it reads an atomic snapshot (routes).
//  5. A backend that is lost, silent, full, or overdue with a batch is
//     removed whole; what ran there is queued again.
//  6. Epochs rise: the start in unix nanoseconds. A clock set back over a
//     restart would break that, and backends would refuse the new scheduler
//     until its epoch is above the one that they promised; they say so.
package server
