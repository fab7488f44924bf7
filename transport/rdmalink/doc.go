// Package rdmalink is the transport over RDMA: TCP's links, and beside each one a
// lane, a queue pair that carries messages and READs while both ends have a device.
//
// # Place
//
//	Send, SendPayload            Read
//	      |  transport.Outbox      |  table of READs (reads.go)
//	      v                        v
//	outbound: numbered messages   flights: slab bytes, then slab header, by READ
//	   |              \            |                    \
//	   | lane          \ no lane   | lane                \ no lane, or not reachable
//	   v                v          v                      v
//	SEND, WRITE+imm   LaneData   READ                  TCP's READ
//	            (a frame of the TCP link below)
//
//	inbound: messages in order, whichever way they came -> stream -> Handler
//	life: one goroutine a link brings lanes up and takes them down
//
// A link is always TCP's, too: that is where it is dialled, where the cluster token
// is checked, and where lanes are talked about; its heartbeats measure the clocks
// and notice a dead peer long before a queue pair has used up its retries. With a
// peer that has no device a frame passes through this package unchanged.
//
// # Invariants
//
//  1. Frames of a link arrive once and in order, over however many lanes that came
//     and went: see outbound, inbound, and life's LaneDown.
//  2. A READ that a lane cannot make is made over TCP; Done is called once, and
//     nobody writes to Dst after it.
//  3. A slab's bytes are served only when the header that was READ behind them still
//     names the request (flights). The frontend's CPU takes no part.
//  4. A peer is given the keys of the arena, to READ, and of its own lane's landing
//     zone, to WRITE: nothing else can be changed. All lanes share a protection
//     domain, so a member of the cluster that guesses another's key and address could
//     write into its landing zone: members trust each other, which the token is for.
//  5. Credits: a message is sent only into a receive that the peer has posted; the
//     last one is kept for a message of credits alone (slots.go).
//
// # Goroutines
//
// Lanes have none for traffic: senders post on their own goroutine, completions are
// handled on the NIC's polling thread, which so is the receiving goroutine of all
// lanes of a process. A Handler must not block there; frames of the control plane,
// which may take their time, are handled apart (inbound).
//
// # SEND or WRITE
//
// A message is a SEND of what fits one posted receive (8 KiB, header and frames
// included). An output that does not fit and lies in registered memory (executor's
// buffers do) is WRITten, with an immediate, into the landing zone: no copy here, one
// receive used up instead of one for each 8 KiB. Below the line the copy into the
// message costs less than the second scatter-gather entry and the zone's bookkeeping;
// above it each further receive would cost the peer a posting. Outputs of the usual
// kind (a thousand classes are 4 KB) are SENDs. `symphony bench net` has both sides of
// the line. What does not lie in registered memory is copied into as many SENDs as it takes.
//
// # Measured
//
// Both ends in one process, over a device in software that copies at once, so what
// shows is this package's own cost and not a device's (go test -run '^$' -bench .
// ./transport/rdmalink; two cores, one run, TCP's own links beside): a lane takes
// 0.97 of TCP's time for a record one way (105 ns), 0.25 for a batch of 8 READs of 150
// KB (98 us), and 1.8 for there and back (36 us: a locked thread wakes more slowly than
// a goroutine; 13 to 36 us from run to run). 0 allocations each. Where there is no device
// this package costs 1.11, 0.91 and 1.08 of TCP alone, and a link comes and goes
// in 1.4 ms.
//
// # Rejected
//
//   - A link that ends when its queue pair does, and is dialled again over TCP: a
//     frontend's open requests would be answered "unavailable", outputs on their way be lost.
//   - rdma_cm: see package rdma.
//   - A fence between a slab's bytes and its header: it would hold up the messages
//     behind it, for what flights tells of the order of READs.
//   - A shared receive queue: saves memory with thousands of links, but credits
//     are then nobody's promise and RNR becomes normal.
//   - Marking where the stream changes ways instead of numbering its messages: each
//     loss then needs its own protocol; numbers make them all one.
//
// # Refuses
//
// READs out of a dialler's slabs by a lane (only listeners offer them: backends dial
// frontends); encryption.
package rdmalink
