// Package netprobe asks the kernel how long the round trips of our own TCP
// connections are.
//
// # Place
//
// A link's DelayBound feeds d_ctrl, the budget for the control plane's delay.
// Heartbeats alone tell of ten instants a second; the kernel measures a round
// trip with nearly every acknowledgement. An eBPF program counts those of the
// watched connections, and transport/tcp joins both (the larger bound counts).
//
//	segment arrives -> tracepoint tcp_probe -> bpf/probe.c: is its socket's cookie watched?
//	                                             |  yes: count srtt and the acknowledgement's round trip
//	                                             v
//	tcp.Network (NewProbed) --Follow--> Probe   map: cookie -> counters
//	link.Stats --------fill----------> Watch --- reads it, keeps differences ---> LinkStats.Kernel*
//
// Whoever starts a process calls Open, logs its error once and goes on with
// tcp.New() and heartbeats alone:
//
//	p, err := netprobe.Open(netprobe.Options{})
//	if err != nil { log; network = tcp.New() } else { network = tcp.NewProbed(p) }
//
// # What counts
//
// The round trip that TCP sees ends when the PEER's kernel acknowledges, and
// that is often not at once. Such samples tell of the peer and not of the
// network; all of the following were seen in TestWaitingIsNotDelay:
//
//  1. An acknowledgement that comes on data waited for the peer's process: of
//     a backend that answers after 20 ms, TCP's round trip is 20 ms. Set aside
//     (Answers). So a link of small questions and answers hardly gets a sample:
//     it has its heartbeats, whose pongs are such answers, sent at once.
//  2. One that took 40 ms and more may have waited for the peer's timer
//     (TCP_DELACK_MIN; the timer does not fire early). What counts here is the
//     OLDEST segment that it acknowledges, for it started the timer; the kernel
//     does not keep that span, but two smoothed values in a row give it back
//     exactly. Set aside (Delayed). So a network of 40 ms has its heartbeats alone.
//  3. One that follows a retransmission may be the timer's after all: a tail
//     loss probe calls it forth early. Set aside (Repeated).
//  4. Of the others the sample is the span of the NEWEST segment acknowledged
//     (the kernel's rack.rtt_us): it is the one that called the acknowledgement
//     forth; an older one waited for the newer.
//
// What remains is the network, our own queue in the kernel and the device, and
// the peer's kernel. The smoothed time (srtt) mixes all of the above, so it is
// shown (SmoothedP99) but bounds nothing.
//
// The program runs before a segment is handled, so it counts what the previous
// one brought: the last acknowledgement of a pause is counted after the pause.
//
// # Invariants
//
//  1. The bound comes down again: counters only grow, but Stats are differences
//     over the recent window (10 s).
//  2. Percentiles are rounded up and the least one down, by 1/16 at most: the
//     bound is never too small by rounding.
//  3. A connection is watched from after its handshake until its link ends. The
//     map holds Options.WatchesMax; more get ErrFull and are counted (Counts).
//  4. Nothing is left in the kernel when the process ends: program and map
//     belong to its descriptors.
//
// # Needs
//
// Linux 5.12 with BTF, on a little-endian 64-bit machine; root, or CAP_BPF and
// CAP_PERFMON. Else Open's *UnsupportedError says in one line what is missing.
// The compiled program is in the tree (`make bpf` makes it anew, with clang);
// CO-RE fits it to the running kernel. Its license string says GPL because the
// kernel lets no other program read a tcp_sock.
//
// # Measured
//
// Kernel 6.18, two cores, loopback: the program takes 135 ns for a segment of
// a connection that is not watched and 167 ns for a watched one (with the
// kernel's own measuring of it). A ping-pong of 64 bytes, 13.5 us without the
// probe, takes 4 to 6 % more unwatched and 5 to 7 % more watched. Reading a
// connection's counters takes 1.9 us, without allocation, ten times a second
// at most. (go test -bench . ./transport/netprobe)
//
// # Rejected
//
//   - sock_ops with RTT_CB: no cost for other sockets, but the kernel calls it
//     once a round trip and not for each acknowledgement, before 6.11 without
//     the sample itself, and it needs a cgroup of ours that each socket was made
//     in (a listener's sockets stay in the group that it was made in).
//   - fentry at tcp_ack: sees the sample when it is made; refused here (EPERM),
//     and an inlined or renamed function would be missed.
//   - Filtering by the socket's address, with cookies from elsewhere: not
//     needed, bpf_get_socket_cookie takes the tracepoint's trusted pointer.
//   - Asking TCP_INFO now and then: no privilege, but one smoothed value that
//     holds the peer's waiting, and tails fall between two questions.
//   - Histograms per processor: a connection's segments are handled under its
//     lock, one by one, so plain additions are right.
//   - TCP_QUICKACK at the peer, to get a sample of every message: a system call
//     a read and a packet a message on the hot path, for a better bound.
package netprobe
