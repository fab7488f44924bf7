// Package paper runs the evaluation of the Symphony paper again: each figure
// and table under the simulator, with plots, tables and one line for each
// claim: what the paper says, what came out here, and whether it holds.
//
//	Figure.Run --jobs--> Session --(system, workload, seed)--> bench/sim
//	                        |  results.jsonl: what has been simulated once
//	                        +--> data/NAME.csv, plots/NAME.{svg,png}, REPORT.md
//
// # Rules
//
//  1. A job is a description, all of it: system, workload, seeds, seconds. Its
//     result depends on nothing else, so it is kept under that description and
//     not computed again. sim.CoreVersion is part of it: when the
//     schedulers or the simulator change, all is simulated again.
//  2. A figure that was interrupted begins where it ended: each result is
//     written when it is there.
//  3. A claim that does not hold is reported as that, with the reason. No
//     number of the paper is in a place where it could pass for one of ours.
//  4. The report is made of all figures that have run into the folder, now or
//     before.
//
// # Units
//
// Descriptions are in milliseconds and requests/s, as the paper's tables are;
// the simulator's own are integer nanoseconds. Network delays are in
// microseconds.
//
// # Quick
//
// With Quick the seconds are fewer, the tolerances wider and the sweeps
// thinner: all of it within a quarter of an hour on two cores. The numbers are
// then those of a smoke test.
package paper
