// Package cuda runs batches on NVIDIA GPUs: an executor.Device over the CUDA driver.
//
//	executor --Launch--> pinned input --copy stream--> device input   (slot 0 or 1)
//	                                                        | compute stream: Program
//	         <--Finish-- pinned output <--out stream-- device output
//
// A device takes two batches at a time (executor.Pipelined): while one executes, the inputs
// of the next are copied in, and the outputs of the one before out, so copies hide behind
// execution. Each model has memory on the device for the inputs and outputs of its largest
// batch, twice: a slot is the half that a batch uses. Events order the streams and give the
// times.
//
// # Rules
//
//  1. One execution at a time, in the order of Launch.
//  2. Nothing is allocated for a batch: memory, bindings and events are made when models
//     are loaded, and every size that the plan can use (Ladder) has run before the first
//     request. Behind the last item of a batch that is smaller than its size lie older items of
//     the same tensor, or those of warm-up runs; their outputs are not copied.
//  3. Each batch is finished exactly once, in order: with its times, or an error. Times are
//     the device's (events), translated to the host's clock at the batch's end.
//  4. Out of memory fails the batch. A lost device is told of (Losing), fails all of them, and is told of again (Lost); a
//     batch that has not ended long after its time is a lost device, too, and so is a device
//     on which many batches in a row fail. It can be reopened when the driver allows it.
//     That of a Paged pool comes back empty.
//  5. Who hangs in the driver hangs nobody else: its thread is left alone, and buffers that
//     it may yet write to are not used again (executor.ErrAstray).
//
// # Threads
//
// Three per device, locked to their OS threads and near the GPU (NUMA): one queues copies in,
// one programs and the copies out behind them, one waits for ends and calls Finish. The first
// two are apart because a Program may wait until it has run, and the next batch's inputs are
// to be copied meanwhile; the third because it sleeps until then. The second one also loads
// and unloads, as a Program has one thread.
//
// # Loads by order
//
// A Paged is a device whose models come and go by order (executor.Pager): of a file that the host keeps in memory (File), one
// at a time, beside what runs. What a model takes is found out with one beside those of the slots (Aside).
//
// # Memory
//
// Batches lie in buffers of the network's pool, pinned by Pinned, so that RDMA writes, and
// the executor sends, where CUDA copies: one copy for a batch each way. Only models of
// several tensors are rearranged on the host, in pinned memory of the device's own, because
// an item's tensors travel together and a tensor's items are computed together.
package cuda
