// Package tcp is the transport over kernel sockets.
//
// # Place
//
// Between package transport's contract and the kernel. Frontends and backends
// dial the scheduler with it, backends dial the frontends.
//
//	Send, SendPayload, Read          any goroutine, never blocks
//	      |  transport.Outbox        bounded, frames copied, payloads referenced
//	      v
//	writer goroutine --writev-->  socket  --read--> receiving goroutine --> Handler
//	      ^                                               |
//	      +------- pongs, replies to READs ---------------+
//	heartbeat: a timer's func; pings, and ends links that fell silent
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
// # Refuses
//
// Encryption (a mesh's or the network's business), peers of another protocol
// version (both sides are told both numbers), more than transport.ReadsLimit
// READs in flight.
package tcp
