// Package scenario turns a simulation in words into one that runs: models,
// GPUs, a policy by its name, arrivals, a network, and GPUs that come and go.
//
//	flags, JSON --> Scenario --Plan--> Plan --Simulate, FindGoodput--> Outcome
//	                (texts)            (checked)                       (JSON, CSV)
//
// A Scenario is texts and numbers: what a person types and what a record
// repeats. Plan checks all of it, and only then does anything run. The Outcome
// carries the Scenario, so that each record can be run again.
//
// # Invariants
//
//  1. Nothing is passed over: whatever a Scenario says has an effect or is
//     refused. An error names the flag (`--policy`) or the file and line, and
//     what would be allowed.
//  2. One Scenario with one seed has one Outcome, to the byte. No instant of
//     the machine's clock is in it.
//  3. A Plan does not change. Its runs may be simulated at the same time; a
//     trace is opened for each.
//
// # Units
//
// Texts count models' latencies in milliseconds and spans with their unit
// (250us, 5s). JSON and CSV count spans in nanoseconds, as the simulator does.
//
// # Rejected
//
// A configuration file with sections, as the servers have: a scenario is one
// line of a shell, and hundreds of them differ in one flag each.
package scenario
