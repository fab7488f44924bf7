// Package scaling decides how many replicas (backends with GPUs) a scaler is to keep, as a core: what
// the scheduler says goes in, orders come out. The controller carries them out, and so does a simulation.
//
//	Observe(sub-clusters, replicas), Step --> Advice, in words
//	                                      --> Leave    replicas that get nothing new: their GPUs drain
//	                                      --> Scale    to the scaler; Asked brings back what came of it
//
// A Group is the replicas of one device type at one scheduler. Each of its sub-clusters is judged by
// package autoscale: need and reserve, bad rate, what was to spare. The sum is what the group wants;
// how GPUs are dealt among sub-clusters is for the plan to say.
//
// # What holds
//
//  1. Only what serves counts: not what a scaler says it runs, nor what is routable. A replica that
//     never served, or died, is on its way for the lead time. Then it is dead: it takes room in the
//     size, so another is ordered beyond it, up to Max. One that dies again soon is not waited for.
//  2. What is on order counts for the lead time, so it is ordered once. What has not come by then is said,
//     and ordered again: first after the lead time, then twice as long each time, up to RetryMax.
//  3. An addition comes CoolUp after any change, a removal CoolDown after any. A removal also needs GPUs
//     to spare in each epoch of a CoolDown, on replicas that have served for as long. So a load that
//     goes up and down, or replicas that come and go, with whatever rhythm, change the size at most
//     once within a cool-down.
//  4. A removal takes the highest ordinals. They drain first; until nothing is on them the scaler is not
//     asked, and all can be called off: the lowest first. What does not drain in time stays, and what
//     is below it.
//  5. Never below the need, Min, or a hint of the schedule; never beyond Max.
//  6. Bad requests of epochs in which GPUs were missing, came, or went say nothing.
//
// # Units
//
// Needs, limits and hints are in GPUs, sizes in replicas. A replica has as many GPUs as one was seen to
// have: additions are rounded up to replicas, removals down.
//
// # What is forgotten
//
// A controller that takes over knows the replicas that are there, and nothing of what is on order or
// drains: it asks for the same again, since it wants the same, and begins each cool-down anew. Its size
// leaves out what is on its way, so it is no order to take at its word before the lead time is over
// (Settled, Config.Absolute).
//
// # Refused
//
// To have the scaler's own count as the size that is reckoned from: a replica that it runs and that
// serves nothing looks like GPUs to spare, which go; then GPUs are missing, and come: the size swings
// between two numbers for ever.
//
// To order others for replicas that never came: what keeps the first from coming (no quota, no node)
// keeps them as well, and once it is over there are too many.
//
// To remember orders in the store: a size that was asked for before a restart may have been changed by
// people since.
package scaling
