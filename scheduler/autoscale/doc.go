// Package autoscale turns the totals of an epoch into advice to add or to
// release GPUs (Symphony, section 3.5).
//
//	requests answered, bad ones, idle GPU time --Close--> Advice{Add, Remove, Why}
//
// It rests on the flat top of the scheduler: with goodput p and a load o above
// it, the bad rate is near (o-p)/o; below it, the idle share of GPU time is
// near (p-o)/p. So with N GPUs,
//
//	bad rate r above the bound:  N*r/(1-r) GPUs are missing
//	idle share f:                N*f GPUs are spare
//
// # Decisions
//
//   - Rounding: up when adding, down when removing. Half a GPU too many costs
//     half a GPU; half a GPU too few is a bad rate.
//   - The bound is on the rate that lies behind the count. A count of bad
//     requests scatters by its root, so a bound of 1 % is exceeded when bad >
//     x + 2*sqrt(x) + 1, x = 1 % of all answered: by 5 of 100, by 10,202 of a
//     million. Without it a model that is asked for ten times an epoch adds a
//     GPU for each request that it loses.
//   - Demand is what the epoch used and what it lacked, in GPUs: N*(1-f)/(1-r).
//     It does not depend on N, so that epochs before and after a change compare.
//     An epoch with too many bad counts as N/(1-r), what it asked for.
//   - Reserve: a cluster that is busy all the time is at the edge of the flat
//     top, where the bad rate just reaches its bound. What is kept above the
//     demand follows from how it varies. Within an epoch, which totals do not
//     show, a demand of D GPUs made of independent requests varies by sqrt(D)
//     or less (batches smooth it). Between epochs, by what the last Hold epochs
//     show: the highest of their demands counts, and their range on top of it.
//     So kept = peak + sqrt(peak) + (peak - least), rounded up.
//   - Hysteresis: GPUs are added on one epoch's word, at once, for each epoch
//     of waiting is one of lost requests. They are released when Hold epochs in
//     a row had them to spare. To add aims at the edge (the demand), to release
//     ends a reserve above it, so neither calls for the other while the demand
//     varies by less than the reserve.
//   - Where the top is not flat (bursts: GPUs idle on average and requests are
//     bad all the same), a release may be wrong whatever the reserve. Each one
//     that turns bad doubles the wait before the next, up to holdMax; two
//     releases in a row halve it. So add and remove alternate ever more rarely.
//   - More GPUs do not cure each bad rate: requests whose SLO is below l(1)
//     are lost on any number. When at least half of the GPUs that came since
//     the last advice were idle in full and the bad rate has not fallen by a
//     tenth, no more are asked for. If the load grows, they are not idle.
//   - When all are bad, r/(1-r) has no value: the cluster is doubled.
//
// Remove is a number. Which GPUs: the highest ids, which package rank leaves
// idle.
//
// # Invariants
//
//  1. At most one of Add and Remove is above 0.
//  2. GPUs + Add - Remove is within Min and Max, where Max >= Min.
//  3. At least Hold epochs without too many bad lie before each release.
//
// # Refused
//
// To learn the busy share at which requests went bad and to stay below it: an
// overloaded epoch is busy in full and teaches nothing, and what a burst
// teaches must be forgotten by a rate that someone has to choose. A fixed
// reserve in percent: 5 % of 4 GPUs is none, of 500 it is 25.
package autoscale
