// Package tcp is the transport over kernel sockets.
//
// # Place
//
// Between package transport's contract and the kernel. Frontends and backends
// dial the scheduler with it, backends dial the frontends.
//
//	Send, SendPayload, Read          any goroutine, never blocks
//	      |  transport.Outbox        bounded; frames and small payloads copied, large ones referenced
//	      |\_ the sender itself, while the link is at rest: a write that does not wait
//	      v                       \
//	writer goroutine --writev-->  socket  --read--> receiving goroutine --> Handler
//	      ^                                               |
//	      +------- pongs, replies to READs ---------------+
//	heartbeat: a timer's func; pings, and ends links that fell silent
//	Prober (NewProbed; none by default): what the kernel measured, for Stats
//
// # Invariants
//
//  1. Send never waits for the network: a slow peer fills the outbox, then
//     Send says ErrFull.
//  2. All frames that one read brought are handled before the next read; a
//     payload larger than inlineMax goes from the socket straight to where it
//     belongs (Handler.Buffer, ReadOp.Dst), only what came with the frame's
//     head is copied.
//  3. Handler.Closed is the last call, from the receiving goroutine, after the
//     writer has ended, every payload was released and every READ was answered.
//  4. Foreign bytes on the port cost one handshake slot and one typed error.
//
// # Handshake
//
//	dialler                     listener
//	Hello            ------->   magic, version, token, accept
//	                 <-------   Welcome (or Reject and why)
//	Ping x 4 in turn ------->
//	                 <-------   Pong x 4
//
// Each side takes the clock offset from these rounds, so Shift is right from
// the first frame on. The listener goes live with its last Pong, the dialler
// with receiving it: neither can see a frame of the other before that.
//
// # Measured
//
// Two cores, both ends in one process, beside bare blocking TCP in the same run
// (go test -bench .): a round trip 20 us where the bare one takes 16, 4.7 million small records a second one way, READs
// of 8 x 150 KB at 3.2 GB/s, 0 allocations each. What the profiles taught:
//
//   - Nearly all of a READ is the kernel's two copies (58 % of the samples are
//     system calls), so one copy fewer on our side shows in the CPU's time but
//     hardly in the wall clock. Still, what follows a large payload is read in
//     small bites (headRead): else the next payload comes through the buffer.
//   - Giving the outbox's buffer back whenever a batch was small halved the
//     throughput: large and small batches alternate under load.
//   - Walking the headers of what is sent (wire.Count) costs a tenth of a
//     flood's time and turns a caller's mistake into an error instead of a
//     broken stream. Kept.
//
// Rejected: writing from the sender's goroutine whenever the writer sleeps (under load
// bursts no longer share a system call; on a link at rest it saves a hand-over, and is
// done: transport.Outbox.Direct); a read deadline per frame (a timer re-armed
// per read; the heartbeat looks at one atomic instead).
//
// # Refuses
//
// Encryption (a mesh's or the network's business), peers of another protocol
// version (both sides are told both numbers), more than transport.ReadsLimit
// READs in flight.
package tcp
