// Package verbs is the only door to libibverbs: it implements rdma.Verbs.
//
//	rdma.NIC --> rdma.Verbs --> this package --cgo--> shim (C) --dlopen--> libibverbs.so.1
//
// Tag rdma decides whether it is linked: the headers of libibverbs-dev are needed
// then, to build. Without the tag, without cgo, or on another system than Linux
// every call returns an *rdma.UnsupportedError (verbs_stub.go). The library itself is
// looked for at run time, so one binary starts on all hosts; where it is missing, or
// the kernel has no RDMA, the error is an *rdma.UnsupportedError too and names the
// package to install.
//
// Invariants:
//  1. One crossing into C per burst: arrays of rdma.SendWR, rdma.RecvWR and
//     rdma.Completion are read and written by C as they lie in memory. layout_test.go
//     and the static assertions of data.c pin the same numbers.
//  2. Nothing of Go's heap is kept by C after a call: work requests are copied,
//     and memory to register lies outside the heap by rdma.Device's contract.
//  3. Every event is acknowledged before the call that took it returns, because
//     destroying a CQ or QP waits for that.
//  4. No call reaches C with a handle that was closed: every object has a lock that
//     calls share and Close holds alone. It costs some 10 ns a call; a handle used
//     after its end would be memory of somebody else.
//  5. What was made of an object must be closed before it: Close says what is still open.
//
// Rejected: linking with -libverbs (no binary for hosts without the library);
// purego instead of C (post and poll are calls through a table in the library's
// context, and a burst would be a crossing per work request).
package verbs
