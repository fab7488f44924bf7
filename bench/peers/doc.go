// Package peers puts Symphony beside other serving systems on one machine: Triton,
// Ray Serve and BentoML from the Python package index, each before the same emulated
// device, each driven by the same open-loop generator over HTTP.
//
//	requirements --> venv --> server --> sweep --> choices --+
//	                            ^                            v
//	                            +---- drive <---- rates, arrivals --> Result --> table, CSV, pictures
//
// A device is a span: a batch of b takes l(b) = alpha*b + beta milliseconds, and one
// batch at a time runs on it. Symphony has its own emulated device; the others get a
// model of a few lines of Python that sleeps as long.
//
// Fairness, in the order of what it moved:
//
//  1. A peer is measured at its best: a sweep over its own settings, on this machine,
//     whose every row is kept. Up to three of its settings are measured: the best over
//     all loads, the quickest at low load, the one that serves most under overload.
//     Symphony is measured as it comes.
//  2. One server at a time runs; all get the same requests in the same order.
//  3. A request counts as in time by its answer at the client, from the instant at
//     which it was meant to leave.
//
// It refuses to leave a peer out in silence: one that cannot be installed or started
// is a row that says why, and the others go on.
//
// All processes that it starts end with it. Some of them (Ray's) detach themselves:
// on Linux this process adopts what is orphaned below it, and ends that too.
package peers
