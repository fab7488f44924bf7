// Package tuner chooses how much of the deferral is spent: it simulates the scheduler with the
// arrivals that came, once with each of a handful of settings, and says which one loses least.
//
//	arrivals ---> Arrive ---> pass: the last arrivals, and dreamt ones where there is time
//	                            |
//	          shadow  shadow  shadow ...   the cores with one setting each, and GPUs that take l(b)
//	             \       |       /
//	              tallies of what was lost, and of how long requests waited
//	                     |
//	Choose <-------------+---> batching.Setting, for the model loops and the rank
//
// Deferral gains GPU time by larger batches, and costs: latency while GPUs are idle, and the time
// of other models whose budget is shorter than the batch that holds their GPU. No rule of thumb
// tells which of them weighs more: the notes of the decision (docs/decisions) list those that were tried, each of
// which fails badly somewhere. To simulate both and look does tell, and costs 300 ns a request and shadow.
//
// # The shadows
//
// A shadow lives on: it is handed each arrival once, in the order and at the distance in which
// they came, so what its cores learn (openings, rates, shares of the GPUs) is what they would
// have learnt had they served. Its clock is its own: where arrivals were left out, because there was no
// time to replay them, it does not notice; where dreamt ones are put in, it runs ahead.
//
// What is not worth trying rests: a setting with room for tight models, while there are none, and one that gives up the
// dearest models, while GPUs are not crowded (rest.go).
//
// # Dreams
//
// Where requests are rare, a minute of them tells a p99 badly: of 600 requests six may be lost. So
// each model's last gaps and budgets are kept, and arrivals drawn from them fill the time that
// is left. They have each model's rate and burstiness; what models have to do with each other is
// in the real arrivals alone. Who has been seen in one burst only is not dreamt of. (dreams.go)
//
// # Pauses
//
// When the scheduler stood still so do the shadows, in dreams as well: who lets requests wait loses them then, and who
// gave them to an idle GPU does not. (pause.go)
//
// # Bursts
//
// Where there is no time for all arrivals, passes are too short for anything to be lost in a burst, and what comes next is
// not heard at all. So a burst is heard on, paid by hearing less afterwards, and weighs as much of what is seen as it is of
// what comes. It is no other load: when it is over, what was seen before it comes back, and what dreams are drawn
// from. (burst.go)
//
// # The choice
//
// cost = bad rate of all + bad rate of the worst model (little of what is beyond a tenth) + waitWeight * mean wait as a share of the
// budget, and with a limited headroom what is used beyond the GPUs that are kept. The setting in
// force has a small advantage, and the drop policy head and caps a doubt against them. The former is held to
// what the mirror loses, a shadow that has the real
// scheduler's past (mirror.go). While the load stays the same much is remembered, for a tight model is rare and its losses are rarer;
// when it has changed (load.go), or more is lost than the past explains, the past counts little; and
// when the real scheduler loses far more than was expected, before the shadows can tell, the whole
// deferral is put into force (alarm.go). While the shadows have hardly run it is in force where full
// batches alone take most of the GPUs; they need run for less where it loses much itself. (choice.go)
//
// # Invariants
//
//  1. All shadows have replayed the same arrivals when they are compared, but for those that rest, or learn: they have
//     what the one has that does the same, and are not chosen.
//  2. At most Config.Share of a processor is used, over a second or so: who drives the Tuner says what its
//     work took (Spent), and Work does nothing while that is more than was allowed.
//  3. One sequence of calls has one sequence of choices: no clock, no map order, a generator with
//     a seed.
//  4. A shadow holds no more than a real scheduler: everything is bounded, nothing is allocated in steady state.
//
// # Rejected
//
// Replaying a log anew each second: the shadows begin without having learnt, and the same
// requests are simulated thirty times. Steering by the share of busy GPUs: it depends on the setting
// itself. A choice for each model: their number of combinations cannot be simulated.
package tuner
