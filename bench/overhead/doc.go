// Package overhead measures what the system itself takes of a request's time: all
// of it but the request's own preprocessing, the waiting by design (deferral until
// the order is due, and for a GPU that is busy), and the execution.
//
// It drives one process that holds all parts, so that one clock tells all instants:
//
//	InferAsync --client--> link --uplink--> scheduler   (queue: by design)   order due
//	  --lateness--> dispatched --order--> backend --fetch--> inputs there   (GPU busy: by design)
//	  --device--> started   (execution)   ended --reply--> frontend has the output --completion--> done called
//
// The instants inside come from hooks (Recorder) that whoever makes the parts hands
// to them; each is a log of its own, joined by the request's id when the run is over,
// so that the hooks neither wait for each other nor share a line of memory.
//
// Beside it the floors: the same bytes over bare TCP, once around all five hops of a
// request, each hop a blocked goroutine and nothing else; one round trip of bare TCP;
// and one of fasthttp. They are measured right before and after each load, in the same
// process, while the system has nothing to do.
//
// Instants are read in this process; those of a peer's messages are taken as the peer
// wrote them, not as the link shifted them.
package overhead
