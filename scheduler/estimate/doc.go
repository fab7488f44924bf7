// Package estimate says how long loads and executions will take, by how long they took
// lately, and how far off that was (Clockwork, sections 5.3 and 6.5).
//
//	reports: what took how long --> Window of the last 10 per key --> p99: the estimate
//	         took - estimated ----> Errors --> how much later than estimated to plan for
//
// A key is what was done: a load of a model's weights, or an execution of so many of
// its requests. One Window belongs to each key, whatever device it was on: the
// devices of a sub-cluster are alike but for the clocks of their GPUs.
//
// A core: it is handed what was measured, and asked for estimates.
//
// # Invariants
//
//  1. An estimate lies between the two longest of the last 10 durations of its key. What was
//     measured before (the seed) counts as the first of them, until ten others have come.
//  2. Executions are kept as if the GPU had run at the reference clock, and are told for
//     the clock that is asked for. Loads do not depend on it.
//  3. All arithmetic is that of integers: one sequence of reports has one sequence of
//     estimates on any machine.
//  4. Adding a measurement and asking for an estimate allocate nothing.
//
// # Rejected
//
// A mean and a deviation: the durations of one key differ by 0.03 % (Clockwork, Figure 2a),
// and what lies outside is no normal distribution but a pause; a maximum that leaves
// after ten is what follows a pause up and down. And a longer window: a device
// that has become slower (heat, a neighbour on the bus) would be planned wrongly for longer.
package estimate
