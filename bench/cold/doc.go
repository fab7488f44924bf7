// Package cold measures a live system whose models do not fit into its GPUs' memory: thousands of them, of which
// each GPU holds some and copies others in on demand (Clockwork's Figure 6, ten times as fast).
//
//	workload.Growing --load.Run--> Go client --> scheduler --> backend, emulated V100s with pages
//	        |                          |             |  orders, reports: Watcher
//	        |                          +-> answers --+--> counts --> Result
//	        +--> bench/sim with the same scheduler ------> counts --^  beside it, and the fluid bound
//
// One model is asked 200 times a second all the time. The others share 1,000 a second, and there
// is one more of them again and again: soon there are more than the memory holds, then more than the link to
// the host could bring. That load does not fit by its design, and what does not fit is refused: what is to be held
// is that whoever gets an output gets it in time, and that as many get one as in the simulator.
// With Config.Share the others are asked as much less as it takes for all to fit into that share of
// the GPUs' and the links' time: then everybody is to be served in time.
//
// # What is counted
//
// Requests by the instant at which they were meant to leave, in the counted span, which begins when the
// second model does. A request is cold if its batch was the first one with its model's weights, since those were
// copied: it waited for a load. The bound is package fluid's: bound.go.
//
// Instants of peers are taken as they wrote them: all parts run in this process.
package cold
