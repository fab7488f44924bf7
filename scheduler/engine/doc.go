// Package engine is the live shell around the scheduling cores: model loops
// that drive shard.Shard and one rank loop that drives rank.Rank, each on a
// thread of its own, joined by bounded rings (Symphony, section 4.2).
//
//	Submit --ring--> model loop --mailbox--> rank loop
//	Done   --ring-->     |     <--ring grants---+
//	                     v
//	                   Sink: Dispatch (to a backend), Drop (to a frontend)
//
// # Rules
//
//  1. A core is touched by its loop alone. Everything that reaches it is an
//     input value, stamped with the loop's one clock reading of the turn; so
//     the log of (now, input) replays the loop exactly (Recording).
//  2. Request rings grow up to a limit and may then be full: Submit says so. The ring of grants and
//     commands never is for grants, of which at most one per GPU is under way: who
//     brings reports, or changes of membership and settings, waits while less room
//     is left than grants and the batches under way could take (Engine.order).
//  3. Requests that a turn finds are queued together, and then each of their
//     models gets one candidate.
//  4. The rank loop sees a model's latest candidate only, whole, together with the
//     answer to the grant under way, of which there is at most one (mailbox); the
//     ring carries the model's number.
//  5. No loop waits for another. A loop with nothing to do sleeps in a futex until its
//     next timer: an idle engine uses no CPU. A candidate wakes the rank loop only
//     if it is due before that. (Placement says who polls, spins or shares a thread.)
//  6. Nothing is allocated per request. Membership allocates, and so does a backlog that is
//     larger than any before: rings, slots and mailboxes are as many as there are requests,
//     GPUs and models, up to their limits.
//  7. Models keep the cluster's ids, in all that is decided, also among equals: where ids
//     index a list it has a pointer for each.
//
// # Margin
//
// What no profile foresees (a device that is slower today, an order that
// arrives late) is measured: for each model the loop keeps a high percentile of
// actual end minus planned end, and takes it off the deadlines of requests to
// come, at most a quarter of the SLO (package overrun).
//
// # Many engines
//
// Engines that share threads (Threads, rider) cost nothing while they are idle. A model moves
// from one to another with what waits for it (HandOver); the two loops do not wait for each other.
// An engine that was stopped may be followed by one with its loops' numbers: batches are
// numbered on from the time at which an engine begins, so a late report finds nothing.
//
// # Paged engines
//
// Where weights come to GPUs and go (Config.Paged) the rank loop drives paged.Paged in rank.Rank's place, and the
// Sink is a Loader as well:
//
//	model loop --mail, with who waits (wants)--> rank loop --LoadOrder--> Loader (to a backend)
//	           <--grants with a generation-------           <--Loaded-- (a backend's report)
//	           <--floors, by the mailbox---------
//
// Mail may replace mail unseen, so wants are counts; a model of which only those have changed has mail, too. A floor
// waits for no room: the mailbox has the last one. A batch that its backend refused whole, as late or cold, is queued again
// (Done.Refused), and weights that a GPU says it has not are forgotten. A GPU begins with what its backend holds
// (AddPagedGPU), of whatever generation: so a scheduler that takes over loads nothing anew. A report counts only for the order that it names
// whole; of what another engine ordered the GPU is told to forget it.
// Reports of loads and all else that enters are inputs: a replay gives the same loads, unloads and floors.
// Nothing is tuned: what the tuner simulates has no pages. Best effort goes as in any engine; a loan carries a generation.
//
// # Tuner
//
// Best effort goes between the loops by events of its own (effort.go).
//
// One more thread, at a low priority, simulates the engine with what arrives
// (package tuner, tuning.go), and ends when nothing has come for a second. Model loops tell it of requests and pauses by a ring each, and
// changes holds what it must know of models, GPUs and delays until it looks; its
// choice comes back as an input of all loops. Nothing waits for it.
//
// # Rejected
//
// Channels between the loops: 32 ns a value against 12, and a wake-up through
// the Go scheduler, which under load comes 20 ms late. One lock around both
// cores: model loops would wait for each other on every request. A lock around each
// mailbox: a holder that the kernel pauses stops the other loop. A timer of the kernel
// (timerfd) to sleep by: it wakes as late as the futex's own timeout, by one more
// system call.
package engine
