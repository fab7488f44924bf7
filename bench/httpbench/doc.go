// Package httpbench measures how many requests a second the HTTP ingress serves,
// beside a bare fasthttp server that reads the same bytes and answers with the same
// bytes: what is between the two is Symphony's. `symphony bench http` wires it.
//
//	Generate (process of its own)         what is measured
//	C connections, D requests each  --->  echo: Echo, a process of its own
//	   in flight, closed loop       --->  infer: ingress, client, scheduler, emulated backend
//
// # Invariants
//
//  1. Ways take turns within every round (echo, binary, echo, JSON), so that all meet
//     the same machine; what is stated is the median of the rounds, and their range.
//  2. Only replies with status 200 count. Others are counted apart, by status, and
//     a reply that is no HTTP ends the run.
//  3. A request's bytes are made once. The generator looks at a reply's status and
//     length only: it must not be what is measured.
//
// # Rejected
//
// wrk itself: not everywhere, and it cannot alternate. (By hand it agrees.)
// An open loop: `symphony bench load` has it; here the question is the processor time
// of a request, and a closed loop finds the saturation by itself.
package httpbench
