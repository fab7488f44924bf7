// Package policytest drives a policy.Scheduler under a virtual clock and holds
// what it does against the rules of package policy.
//
//	Story  by hand, written down: the golden transcripts of the policies
//	Walk   at random: jitter, GPUs that are lost and return, overload
//	   \   /
//	  Cluster   clock, GPUs, open requests; the first breach ends the test
//
// At each instant: batches end, then the caller acts, then Step. GPUs take
// exactly as long as was planned, unless Cluster.Jitter says otherwise.
//
// # Rejected
//
// bench/sim as the driver of these tests: it measures and does not judge, and
// its networks would blur the instants that the rules are about.
package policytest
