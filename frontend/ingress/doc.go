// Package ingress speaks the Open Inference Protocol (KServe V2) over HTTP on
// top of the frontend's client library, so that tritonclient, perf_analyzer
// and the KServe SDK work unmodified; and a plain route for people.
//
//	conn --> fasthttp --> route --> body --> oip.Request --> Inferrer --> oip.Reply
//	         (goroutine a connection)        (views of the body)
//
// /metrics with statistics, and admin calls, may have addresses of their own (door.go).
//
// # Invariants
//
//  1. Every request that can be answered is answered, as {"error": "..."} with
//     the header X-Symphony-Reason when it has no other answer. A refusal
//     before the body is read does not reset the connection: the body's rest is
//     swallowed for a while, so that the answer arrives. A drain answers, too (drain.go).
//  2. Everything is bounded: connections, requests at a time, one body, all
//     bodies together, what a body may decompress to, header and time to send
//     it, the rate of a body, items of a batch. Full is 429 with
//     Retry-After, at once (later.go). Memory is charged as a body comes, not as announced.
//  3. No goroutine is started per request: handlers run on their connection's
//     and wait there. Items of a batch are asked for asynchronously and joined. One goroutine
//     looks for clients that have gone while their requests wait (gone.go), four times a
//     second at least.
//  4. A request takes one turn of its model's versions (Inferrer.Choose), all items of a
//     batch together, whether it is good or bad; the reply names the version that answered.
//     One that goes while the body comes is followed by another (settle), unless the path
//     names it.
//  5. A binary tensor of one item goes from the connection into the slab (direct.go);
//     any other from the body to the slab in one copy.
//
// # Ownership
//
// An exchange is one request's scratch: taken from a pool when its handler
// begins, given back when it ends. Views of the body die with it; a header that
// direct.go has parsed stays with it in a copy, for clients that send the same again.
//
// # Refuses
//
// Shared memory, changing log or trace settings, and without a Repository loading and unloading
// models: these answer 501 or 400 with a text. It does not schedule, and keeps no queue.
//
// # Rejected
//
// net/http: at 2,000 requests/s its allocations would be most of ours. Reading
// bodies before the handler (fasthttp's default): a slow sender of 64 MiB
// would hold its memory uncounted.
package ingress
