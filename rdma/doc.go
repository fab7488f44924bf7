// Package rdma is the life of RDMA resources: one opened device (NIC) with its
// polling thread, queue pairs (Conn), registered memory (Region, Memory), and the
// bound on what is READ at a time (Window). What is said over a queue pair is its
// user's business (transport/rdmalink).
//
// # Place
//
//	transport/rdmalink        messages, credits, READs, choice of RDMA or TCP
//	      |  Post                  ^  Sent, Received, Turn, Failed
//	      v                        |
//	Conn: send queue's ledger      NIC: one locked thread polls all CQs
//	      |                        ^
//	      v        Verbs           |
//	cgo/verbs (libibverbs), rdma/fakeverbs
//
// # Invariants
//
//  1. Every work request that Post took completes exactly once at its handler, in
//     the order of posting: as success, as its own error, or as flushed. Also
//     those that were posted without a signal, and those that the device never
//     answered: these after Close, when no DMA can come any more.
//  2. No queue overflows: a Conn's depths are reserved in a CQ before the QP is
//     made, and Post refuses what is beyond the send queue.
//  3. A handler's methods are called by one goroutine at a time, Turn after the
//     others of a burst. They must not block, and must not call Close.
//  4. An idle NIC sleeps on its channel: see polling.go.
//
// # Retries
//
// A packet that is not acknowledged is sent again after 4.096 us * 2^14 = 67 ms,
// five times: a flap of a switch's port passes unseen, and a dead peer is noticed
// within half a second (devices may take up to four times as long; the TCP side
// channel usually knows first). A SEND that meets no posted receive is tried six
// times, 0.64 ms apart. With credits that cannot happen, so a peer that lets it
// happen is broken, and a few milliseconds are patience enough; 7 would mean for
// ever.
//
// # Refuses
//
// Remote writes into registered arenas (READ only; a landing zone for WRITEs is a
// region of its own), datagrams, atomics, and rdma_cm: it needs an IP over the
// device and a daemon's port, and a TCP link is there anyhow.
package rdma
