// Package transporttest is the conformance suite that every transport passes:
// one contract (package transport), one set of tests. A transport calls Run
// from a test of its own and hands in what the suite needs of it.
//
// What cannot happen on a transport (foreign bytes on a port that is none) is
// left nil in its Fixture, and the case says that it was skipped and why.
//
// No case asserts a duration but for generous limits of liveness; every case
// checks that no goroutine is left behind.
package transporttest
