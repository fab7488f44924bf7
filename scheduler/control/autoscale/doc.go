// Package autoscale turns the totals of an epoch into advice to add or to
// release GPUs (Symphony, section 3.5).
//
//	requests answered, bad ones, the need --Close--> Advice{Add, Remove, Why}
//
// The need is the GPUs that deferral alone would keep busy with what arrives
// (batching.Need, summed by package rank). It follows from arrivals and
// profiles, so it is the same however many GPUs there are, and whether their spare
// time is left idle or is spent on latency. The scheduler has a flat top:
// while the need is below the GPUs, hardly a request is bad, and with N GPUs
// and a need D above them the bad rate r is near 1 - N/D. So
//
//	need D, and its reserve:      D + sqrt(D) GPUs are wanted
//	bad rate r above the bound,
//	although D is below N:        N*r/(1-r) GPUs are missing
//
// # Decisions
//
//   - Rounding: up when adding, down when removing. Half a GPU too many costs
//     half a GPU; half a GPU too few is a bad rate.
//   - The need of an epoch is its highest: GPUs that are enough on average are
//     too few in the minute that counts.
//   - Reserve: a cluster that is busy all the time is at the edge of the flat
//     top, where the bad rate just reaches its bound. What is wanted above the
//     need follows from how it varies. Within moments that are too short for it to
//     show, a need of D GPUs made of independent requests varies by sqrt(D)
//     or less (batches smooth it). Between epochs, by what the last Hold epochs
//     show: before a release, the highest of their needs counts, and one and a
//     half times their range on top of it. So kept = peak + sqrt(peak) +
//     1.5*(peak - least), rounded up.
//   - GPUs are added when less than a quarter of the reserve, sqrt(D), is left,
//     and then as many as fill it. That is short of the edge: 62 of 64 GPUs,
//     where 0.2 % of the requests of the A100 zoo are bad.
//   - While the need calls for GPUs, it alone says how many. Bad rates at the edge
//     and in overload differ a little from one scheduler, or one minute, to the
//     next, and 1 % of 512 GPUs is five. Nor do they weigh what is bad: costly
//     requests are shed first. Figure 15's overload needs 717 GPUs, of 512, and
//     has 5 % bad: N*r/(1-r) asks for 28 where 205 are missing.
//   - The bad rate speaks where the need is wrong or not known: bursts that
//     are too short for it, GPUs that fail, wrong profiles.
//   - The bound is on the rate that lies behind the count. A count of bad
//     requests scatters by its root, so a bound of 1 % is exceeded when bad >
//     x + 2*sqrt(x) + 1, x = 1 % of all answered: by 5 of 100, by 10,202 of a
//     million. Without it a model that is asked for ten times an epoch adds a
//     GPU for each request that it loses.
//   - Hysteresis: GPUs are added on one epoch's word, at once, for each epoch
//     of waiting is one of lost requests. They are released when Hold epochs in
//     a row had them to spare. Between what a release leaves and what calls for
//     more lie three quarters of the reserve, and the range.
//   - Where the top is not flat (bursts: the need is low and requests are
//     bad all the same), a release may be wrong whatever the reserve. Each one
//     that turns bad without a need doubles the wait before the next, up to
//     holdMax; two releases in a row halve it. So add and remove alternate ever
//     more rarely.
//   - More GPUs do not cure each bad rate: requests whose SLO is below l(1)
//     are lost on any number. When GPUs came since the last advice that a bad
//     rate gave, no more than half of them for a need that grew, and the bad
//     rate has not fallen by a tenth, no more are asked for. If the load grows,
//     the need says so.
//   - When all are bad, r/(1-r) has no value: the cluster is doubled.
//   - Requests without any need: whoever asks does not know it. Then nothing is
//     released.
//
// Remove is a number. Which GPUs: the highest ids, which package rank leaves
// idle.
//
// # Invariants
//
//  1. At most one of Add and Remove is above 0.
//  2. GPUs + Add - Remove is within Min and Max, where Max >= Min.
//  3. At least Hold epochs that did not call for GPUs lie before each release.
//
// # Refused
//
// Idle time instead of the need, as in the paper: N*f GPUs of an idle share f
// are spare when all deferral is kept. A scheduler that starts batches early where
// that costs nobody anything has smaller batches, and is busy: at a quarter of the
// peak of 64 GPUs for 60 to 100 % of the time instead of 35 %.
//
// To call for GPUs when any of the reserve is used: where needs scatter by 3 % from
// epoch to epoch, each third step of the load has a release that is taken back
// within an hour; as it is, none of 120.
//
// To learn the busy share at which requests went bad and to stay below it: an
// overloaded epoch is busy in full and teaches nothing, and what a burst
// teaches must be forgotten by a rate that someone has to choose. A fixed
// reserve in percent: 5 % of 4 GPUs is none, of 500 it is 25.
package autoscale
