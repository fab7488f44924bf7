// Package fakeverbs is an RDMA device in software: rdma.Verbs for tests that
// must run where there is no NIC, and for faults that no NIC can be asked for.
//
// # Place
//
// A Fabric joins hosts; each has NICs, which Open gives as devices. A test takes
// two hosts for the two ends of a link, hands Host to what it tests in place of
// cgo/verbs, and keeps the Fabric and the NICs to break things.
//
// # What is as on a real device
//
//   - A QP executes its sends one after the other, each at once where it can be:
//     in the goroutine that posts. What must wait (Config.Delay, a peer without
//     receives, a peer out of reach) waits on a timer.
//   - A slot of a queue is taken until its completion is polled; that of an
//     unsignalled send until a later completion is. Posting beyond is ENOMEM.
//   - Whatever ends in error puts its QP into ERR, and the rest is flushed in
//     order: sends, then receives. An error that the peer found out (wrong key,
//     message too long) fails the peer's QP too.
//   - A CQ that is full loses entries: EventCQError, and its QPs fail.
//   - Memory is found by key: of the right device, generation, range and access.
//     LKey and RKey of a region differ, so that one taken for the other is seen.
//   - QP numbers are unique on a NIC only: the first of each NIC is the same.
//
// # What is stricter, so that a test sees what a NIC would forgive
//
//   - Completions in error carry nonsense where nothing is defined.
//   - What is closed twice, or used after Close, is an error; closing what is
//     still in use is EBUSY.
//   - Close of a QP takes its entries out of the CQs.
//
// # What is simpler
//
//   - Only Fabric time: Sending.Timeout and Retry, and Peering.MinRNR, are not
//     looked at; Config has the pauses. RNRRetry counts as it should.
//   - A READ is finished before what was posted after it begins, as if all had Fence.
//
// # Ownership
//
// One lock per Fabric guards everything; Poll looks at an atomic count before it
// takes it. The package starts no goroutine but those of timers that have fired;
// Close of a QP stops its timer.
package fakeverbs
