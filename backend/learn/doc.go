// Package learn corrects latency profiles by the batches that ran. A profile that was measured may be
// far off: on inputs that are not the real ones, on a host that did other work meanwhile, or because
// a person wrote it.
//
//	right:  runs say that it is far off, and for some time --> wrong
//	wrong:  each step brings it nearer, by a bounded factor; close for some time --> right
//
// A core: it is handed what ran, and asked twice a second for what follows from it.
//
// # Claims
//
//  1. A profile that is right stays as it is, to the nanosecond: runs that others on the host hold up
//     are no reason to change it. So "far off" asks for a factor, for a span that matters beside
//     the SLO (the scheduler's margins, scheduler/overrun, take what is smaller), and for some time.
//  2. One that is wrong by a factor of 10,000 is right within five runs and five seconds.
//  3. A latency is the 75th percentile of the runs of its batch size: where times depend on the
//     inputs, half of all batches take longer than the median. Sizes that did not run keep their
//     ratio to the nearest ones that did, and a larger batch never takes less than a smaller one.
//  4. A profile by which no request can make its SLO is doubted now and then, as nothing runs that
//     could show that it is wrong: it is measured again, or, where runs have taught it, tried.
//
// # Rejected
//
// scheduler/estimate, whose windows have ten durations and their p99, which is about the longest of
// them. That serves where each run is to count (loads of weights); here one run that was held up
// must not move a profile. And a correction in the scheduler, by its reports: a profile is a
// device type's, and what one learns is to be stored beside the model, where the next start finds it.
package learn
