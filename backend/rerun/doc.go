// Package rerun decides which parts of a batch run, and in which order, where some of its requests make a run fail.
//
//	order --Begin--> Runs --Next--> part --device--> Ended --> Runs --Next--> ... End
//
// A run that fails says only that one of its requests, at least, is at fault. Runs halves the part that failed until each
// request has run well with others, or has failed alone. A request that fails alone is the culprit, and its answer
// says so. From then on the frontend marks requests like it as suspects (wire.Suspicion), and Runs parts suspects from
// the others before the first run. So a known culprit costs its neighbours nothing but the time of its own runs.
//
// # Invariants
//
//  1. Each request is in exactly one part that ran well, failed alone, or was given up.
//  2. Requests above suspicion run first.
//  3. Strong suspects beside others run for a few per cent of the device's time (Share), and are refused beyond it. Weak
//     ones run with the others where the share is used up. Requests that are not strong suspects are never refused for
//     want of it: their reruns end at the order's limit, and at requests' deadlines.
//  4. A model that does nothing but fail (Record) has no reruns, but for a try each second.
//
// # Rejected
//
// Running each request of a failed batch alone: 16 runs for one culprit among 16, where halves take about 6. Taking the
// second half to be bad because the first ran well: a model whose failures are random would have its requests accused.
// A fixed delay for suspects: on an idle device it gains nothing.
package rerun
