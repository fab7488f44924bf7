// Package tracing tells an OpenTelemetry collector what became of requests: a tree of spans for each
// that is sampled, over OTLP (HTTP, protobuf).
//
//	Begin(traceparent) --> Context --> ... the request ... --> End(Record) --> queue --> goroutine --> POST /v1/traces
//	 share, rate, the                                          full: counted            batches of
//	 caller's own wish                                                                  spans, retried
//
// One tree, whoever did the work:
//
//	POST infer             the frontend: from the headers to the answer; its parent is the caller's span
//	  preprocess           the frontend: the body read, images decoded, inputs written
//	  queue                the scheduler: deferral, and the wait for a GPU
//	  fetch                the backend: inputs read out of the frontend's memory
//	  execute --link--> batch    the backend: the batch that it ran in, a trace of its own, which
//	                             links back to the requests in it that are sampled
//	  reply                the output's way back, and its encoding
//
// The frontend makes all of it: scheduler and backend report their times with each output, on the
// frontend's clock (wire.Output), so they know nothing of traces, and pay nothing for them. Which batch it was
// comes likewise; its trace's id follows from the batch's, so that all frontends name the same one.
//
// # Invariants
//
//  1. Off (no Tracer) a request costs a comparison. With a Tracer one that is not sampled costs a
//     look at its header and an atomic addition, and no memory.
//  2. Everything is bounded: traces a second, records that wait, a request to the collector, attempts.
//     What is lost is counted. No request waits for the collector.
//  3. A caller's traceparent decides where it is valid: sampled, as far as the rate allows, or not at all.
//
// # Rejected
//
// OpenTelemetry's SDK: a span of it is some allocations and a mutex, and spans that begin and end at
// times of the past are its exception; here they are the rule. Spans made by scheduler and backend: the
// trace's id would have to be in the records of every request, and the loops would have to make them.
package tracing
