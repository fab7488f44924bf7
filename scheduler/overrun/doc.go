// Package overrun turns what was late into what is planned with: how much later
// than planned batches end becomes a margin that is taken off deadlines, and how
// late orders leave opens windows earlier.
//
//	reports: end - planned end --> Overrun --> margin of a model
//	turns: late wake-ups ---------> Lateness -> batching.Delay.Late of all
//
// The live engine and the simulator learn by the same code, so that a
// simulation of devices and processes that stand still now and then has the
// defence that serves.
//
// A bound is a high percentile, not the maximum: one pause of the machine must
// not make the scheduler shed for the next 256 batches. It forgets: a pause
// costs nothing any more after Age. And it is clamped by whoever makes it: a
// margin of a deadline's whole span would serve nobody.
package overrun
