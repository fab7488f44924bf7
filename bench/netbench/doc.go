// Package netbench measures what the transports cost that can carry a batch's
// inputs and the control messages: RDMA and TCP beside each other, in one run, on
// one machine. `symphony bench net` wires it.
//
//	        client (Measure)                     servers (Serve), N processes
//	incast  READs all objects of all   <------>  arena of objects per way
//	alone   READs one object                     "
//	echo    message, waits for answer  <------>  the first server answers
//	flood   messages, one way          ------->  the first server counts
//
// The incast is that of the paper's Appendix B: the inputs of a batch come from
// many frontends to one backend at once.
//
// # Invariants
//
//  1. A way (RDMA, TCP) is a transport.Network and nothing else: what is measured is
//     what the system uses.
//  2. The ways take turns of turnSpan, so that both meet the same machine. Only the
//     present way has anything in flight, so what the processor did in a turn was
//     done for it.
//  3. Wrong bytes end the run (ErrWrongBytes). Before each round the end of every
//     destination is wiped, and one object as a whole; after it these are compared
//     with what the object must hold. So what an earlier round left cannot pass.
//  4. A percentile that too few samples support is not stated.
//
// # Units
//
// Bytes; spans within the package are mono.Dur, in a Result microseconds.
//
// # Rejected
//
// A run of one way after the other: the second meets another machine (frequency,
// neighbours), and the difference is then of the hour, not of the transport.
//
// Servers within the client's process: their part of the processor's time could not
// be told from the client's.
package netbench
