// Package ui is the live picture's server: the page, the stream of events that feeds it, and
// requests' stories, on the scheduler's admin address or of a file (symphony ui FILE).
//
//	Source (scheduler/server) --each 800 ms, while somebody looks--> Hub --> History, State
//	                                                                  +----> viewers (SSE), bounded
//	GET /ui/          the page: plain modules, embedded, nothing of another host
//	GET /ui/events    the stream: server-sent events, each line of data a line of a document (package watch), frequent events packed
//	GET /ui/story     ?request=2-9f3c: why a request was dropped or late; JSON, or text with &format=text
//	GET /ui/lost      the requests that were dropped or late last; JSON
//	GET /ui/pages     what the devices of paged pools hold and load, and how their models stand; JSON
//	GET /ui/save      what is kept, as a document
//
// # Rules
//
//  1. While nobody looks there is no goroutine, and the source tells nothing. Each question is a
//     look that lasts for a while (Config.Linger): so a story can be asked for twice.
//  2. Viewers are bounded, and so is what waits for one: who reads too slowly is cut off, and
//     the browser comes again.
//  3. An event is encoded once, however many viewers there are; what a look is sent in is used again.
//  4. It answers and never acts: nothing that is asked here changes what is scheduled.
package ui
