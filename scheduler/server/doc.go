// Package server is the scheduler's process: it drives the members' core (package members:
// who is there, what can be asked for, what everything is called) and the engines, and owns
// the links that carry requests to the engines and batches to the backends.
//
//	frontend link --Submit--> route table --> engine of the model's pool
//	engine --Dispatch--> pending of the backend --Flush, one Send--> backend link
//	engine --Drop------> pending of the frontend --Flush, one Send--> frontend link
//	backend link --Done--> engine
//	a link's first document, Stock, orders, its end --> members.Cluster --Effects--> engines, links, teller
//	teller --Changes--> frontends; tellControllers --Facts, rates--> controllers
//	links of schedulers --Beat--> group (package standby) --Lead, Promise--> frontends, backends
//
// # Rules
//
//  1. A pool is a sub-cluster (Symphony, section 4.1): devices of one type under one
//     engine, one rank loop. Those that nobody plans are one for each type.
//  2. Who is admitted, and as what, is decided by the members' core alone; its
//     effects are carried out in their order, under one lock (carryOut).
//  3. A backend hears of a frontend before the first batch that names it:
//     Members are sent under the same lock that admits, on the same link.
//  4. The request path takes no lock: it reads an atomic snapshot (routes).
//  5. A backend that is lost, silent, full, or overdue with a batch on all
//     of its GPUs is removed whole; what ran there is queued again. Overdue
//     on some, it loses these for a while.
//  6. A model that moves is added to its new engine, then requests go there, and
//     then the old engine hands over what waits (finishMoves).
//  7. A model that the control plane removes is out of the catalogue at once, and
//     served until nothing waits, for a few seconds at most; only then is the order
//     answered, and its GPUs may unload it (leaving).
//  8. Nothing waits for a controller. What was ordered last holds while none is there.
//  9. In a group (Config.Group) nothing is ordered of a backend before it has promised to obey this
//     scheduler (aside): each batch bears the reign that was promised. What a spare must
//     know to take over it hears from all members itself, as backends pass on what they are ordered,
//     and the leader tells what orders have set (standing).
//  10. A request that came again and runs already, for the leader before, waits for that (held).
//  11. A leader that another one has overtaken sends nothing of requests any more, and this Server
//     ends: its process makes a new one (Over).
//  12. Epochs rise: the start in unix nanoseconds. A clock set back over a
//     restart would break that, and backends would refuse the new scheduler
//     until its epoch is above the one that they promised; they say so.
//  13. What paged devices hold is known here by all that was said and ordered, for the next
//     engine or life of a GPU (paging); members and catalogue do not know it.
package server
