// Package workload makes arrivals: when the next request comes and for which
// model. Load generator and simulator use the same ones.
//
//	Stream of each model --> Mix --------+
//	Config (one process, shares) --> Generator
//	trace of arrivals, CSV --> Trace ----+--> Source: instant, model
//	counts per minute, CSV --> Functions-+
//	synthetic functions --> MAF ---------+
//	ever more models -----> Growing -----+
//	clients that wait --> Clients -------+ (told of answers by who drives it)
//
// A core: no clock, no file; traces are read from the caller's io.Reader.
//
// # Invariants
//
//  1. One seed gives the same arrivals on every machine, to the nanosecond
//     (float.go tells how). A golden hash in the tests says so.
//  2. A Source yields instants that never decrease, counted from 0.
//  3. Memory does not grow with the length of a run, and Mix allocates nothing
//     per arrival.
//
// # Units
//
// Rates are requests/s. Instants are mono.Time: whole nanoseconds. In between
// they are float64 nanoseconds and rounded down once, so that rounding does not
// add up.
package workload
