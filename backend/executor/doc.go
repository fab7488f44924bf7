// Package executor runs batches on one device: fetch the inputs, execute,
// send the outputs, report.
//
//	order --READ all inputs in parallel--> buffer --device--> outputs --> frontends
//	                                                     \--> Done --> scheduler
//
// While one batch executes, the inputs of the next are fetched: beside the
// running one, at most ordersMax orders wait. A Pipelined device has some of these
// already, so that their inputs are on it when its turn comes to them.
//
// # Rules
//
//  1. Each order gets exactly one Done; each of its items at most one Output. But for
//     orders that wait at Close or Fence, or are there at Suspend: the scheduler queues them again.
//  2. An input that cannot be read (stale slab, frontend gone) fails its item
//     alone; the others run. A frontend's first data link is awaited for a
//     moment, as far as the batch has time.
//  3. An item whose deadline has passed when the batch is launched is answered
//     with deadline and not run.
//  4. Nothing here blocks: orders, completed READs and finished executions
//     are events under one short lock. So a device costs no goroutine beyond
//     its own.
//  5. A batch starts as soon as inputs and device allow, also before its
//     planned Exec: the plan has room for the network, and a device that is
//     done early is free early. On a strict device it waits for it (strict.go).
//  6. Buffers are reused when the last output was taken by its link, and never when
//     the device may still write to them (ErrAstray).
//  7. A device is launched by one goroutine at a time, with at most Depth batches.
//  8. An order that is too late to be begun (Latest), or whose weights are not on the device, is given back whole: its
//     Done says why, and none of its items is answered. One whose weights are on their way waits for them, no longer than
//     its Latest. So is one whose weights went while it ran.
//  9. A Pager's weights come and go by orders to its loader (loader.go), beside what runs.
//  10. An order has begun when it is launched. At a Fence those that have not are given up without
//     a word, READs under way included, and none of an epoch below it begins any more. Loads are void.
package executor
