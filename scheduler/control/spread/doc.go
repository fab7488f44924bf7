// Package spread decides which scheduler process serves which model, where a controller has
// several, as a core. Each scheduler has backends and GPUs of its own and a lead.Lead of its own,
// so its failure is its own; here is only who gets a model: all versions of a name together, so
// that its shares stay in one place.
//
//	Want, Unwant, Restore, Claim, Assign --+                +--> Give, Take   which Lead knows of a model
//	World (what the Leads know) -----------+--> Spread, Step-+--> Waits        models that nobody can serve yet
//
// # Rules
//
//  1. A new model goes to a scheduler with GPUs for it, one of them large enough for each version: to
//     that with the least need per GPU, then the fewest bytes, then the fewest models per GPU. After a
//     start it waits for all schedulers to tell what they have, for Config.Wait at most.
//  2. A model stays where it is, also while its scheduler is away. After a restart of the
//     controller that is where the last plans have it, or else where it is served. If two plans have
//     it, it goes on from where it is served to the other, or to where the newer plan has it.
//  3. It moves when needs per GPU have been further apart than Config.Apart for Config.Hold, when
//     its scheduler has had no GPU for it for Config.Stranded, or none that is large enough, or has
//     failed to serve it for as long (one at a time), or when people say so. Balance moves at most
//     Config.MovesMax of all bytes in an Interval, or one model; each move brings the two schedulers
//     nearer, and a model that has moved rests.
//  4. A model that moves is given to the other scheduler's Lead too, and taken from the first
//     when the other has served all that the first does for Config.Linger. So requests are always
//     served somewhere. A move that fails, or takes too long, is undone, and the model not sent there
//     again for a while if there is another place. What people's plan moves has the time that it
//     takes while the plan holds, and is tried again where it fails, for Config.MoveMax.
//
// # Invariants
//
//  1. A model that is wanted is at one scheduler, or moves between two, or waits: at none only while
//     no scheduler that has told has a GPU for it (or Wait has not passed).
//  2. It ends: every move is done, undone or timed out, but for people's own while their plan holds;
//     and while paused none begins.
//
// # Rejected
//
// One Lead over all GPUs, with the scheduler as a property of sub-clusters: a plan would then wait
// for the slowest scheduler, and one that is away would hold the plans of all. Versions of a name
// on different schedulers: frontends would have to merge shares that nobody set together.
package spread
