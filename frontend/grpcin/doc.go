// Package grpcin speaks the Open Inference Protocol over gRPC, with Triton's calls, beside the HTTP
// ingress: tritonclient[grpc], perf_analyzer, the KServe SDK, grpcurl and ghz work unmodified.
//
//	conn --> grpc-go --> codec --> request --> ingress.Server --> frontend.Client --> reply
//	                               (views of what came)   (limits, counts)
//
// It is a second protocol on top of the same ingress.Server, not a second ingress: the number of
// inferences at a time, statistics, words of refusals and documents are those of HTTP
// (ingress/protocols.go).
//
// # Invariants
//
//  1. A tensor that comes as raw_input_contents is copied once: from the buffers that the connection
//     was read into, into the slab that backends READ. The codec only notes where it lies.
//  2. Each refusal is a status with a code, the words of HTTP's, and details: ErrorInfo with the reason
//     that HTTP has in X-Symphony-Reason, and RetryInfo where it may work later.
//  3. The deadline is the earliest of grpc-timeout, parameters.timeout and, where that is not given,
//     the model's SLO (package frontend, "Deadlines").
//  4. A client that cancels, or whose connection ends, takes its requests with it: the scheduler
//     is told, and what waits there leaves its queue (frontend, cancel.go).
//  5. Everything is bounded: connections, calls of one at a time, inferences, a message, items of a
//     batch, answers that a stream's client does not read.
//  6. An inference is told of once, by the same account as HTTP's (ingress.Account): in the access log, to
//     the tracer, and in the recording. Each of a stream's is for itself. What grpc-go refuses before a
//     handler has it (a message that is too large, or does not come) is told to its client alone.
//
// # Ownership
//
// A request is one call's scratch, from a pool; its views die when it goes back there, after the answer
// has been composed. It holds references to the connection's buffers until its tensors are in the slab.
//
// # Rejected
//
// The generated ModelInferRequest for inferences: it copies each tensor once more, and a map or two for
// each input. The made types serve everything else. A proxy from gRPC to HTTP: the JSON between costs
// more than both protocols.
package grpcin
