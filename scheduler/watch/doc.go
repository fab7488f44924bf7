// Package watch is what people may see of the schedule: events, a document of them, and what
// they say of one request.
//
//	engine's loops, server, simulator --Event--> Document (lines of JSON, versioned)
//	                                      +----> History (the last while, bounded)
//	                                      +----> State (the picture: models, pools, GPUs)
//	History + State --Tell--> Story (why a request was dropped or late)
//
// A core: who tells events stamps them, and nothing here decides anything.
//
// # Document
//
// A document is text, one JSON object a line. The first line names the format and its version:
//
//	{"symphony":"schedule","version":1,"source":"live","began":1763900000000000000}
//
// Each further line is an event: "e" says which, "t" is its instant in nanoseconds of the
// clock of who tells, of which "began" is the origin in unix nanoseconds (0 in a simulation).
// Readers pass over events and fields that they do not know; another version they refuse.
// The stream of a live scheduler, a saved picture and a file of the simulator are the same, but
// that in a stream the frequent events (batches, reports, drops, candidates, loads) come packed, many in a line
// (packed.go). In files each is a line, for people and their tools; readers (Reader) take both.
//
// # Frequent events
//
// They are records of words (record.go), as model loops write them. History packs them once, keeps the text
// and streams it as it is; an Event is made of one only for who asks: a story, a list, a file.
//
// # Invariants
//
//  1. What is kept is bounded, by age and by bytes: History forgets the oldest first, and says
//     from when on it knows all.
//  2. A story names only what events said. Where events are missing (sampled, or lost) it says so.
//  3. Identifiers are texts in documents: numbers of 64 bits are none in JavaScript.
package watch
