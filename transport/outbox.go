package transport

import (
	"fmt"
	"sync"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Outbox is the bounded queue between the goroutines that send on a link and
// the one that moves what they sent. Senders append under a short lock; the
// mover takes everything there is at once, so that many frames share a system
// call and a wake-up.
//
//	senders                                         mover, one goroutine
//	Send, SendPayload, Reply, ... --put--> pending --TryTake--> its Batch --> socket
//	                                         |                                  |
//	   link at rest: the sender itself       +--> own --near--> socket       Moved
//	                                                              |             |
//	   queued: bytes from put until they left ---------- less ----+-------------+
//
// Who may move has the turn. It is free while idle is set; whoever clears that has it,
// for the mover by a token on wake, until there is nothing pending (outbox_direct.go).
//
// What is sent lies in a Batch, counts against the limit, and lets its payload go so:
//
//	frame                    Bytes               counts
//	small payload (<= copy)  Bytes, behind it    counts                     released by put
//	larger payload           Parts               counts                     released once moved
//	READ's reply, small      Bytes, behind it    replies, up to ReadsLimit  unpinned by put
//	READ's reply, larger     Parts               no                         unpinned once moved
//
// A reply's payload does not count: it costs no memory here while it is pinned, the peer
// can only ask for ReadsLimit, and a side that serves many must still be able to send. One
// that was copied gives its slab back at once, so who serves READs no longer knows how many
// lie here: replies does.
//
// Invariants:
//  1. Frames leave in the order in which they came in.
//  2. A payload's release runs exactly once: when its bytes were copied or have left, when
//     it was refused, or when the link died.
//  3. queued never passes the limit but by a payload that found the box empty, and by the
//     link's own frames, which the protocol bounds.
//
// Rejected: a ring of frames (a lock-free one cannot hold the all-or-nothing
// promise of Send for several frames and payloads by reference), a channel of
// byte slices (an allocation a frame, and one wake-up each).
type Outbox struct {
	// Immutable once the mover runs.
	limit int                // of queued
	copy  int                // payloads up to this are copied
	near  func(b []byte) int // nil: senders leave everything to the mover; see Direct

	wake chan struct{} // capacity 1; a token only after idle was cleared

	mu      sync.Mutex // Guards what follows.
	pending Batch
	own     Batch // what the sender moves that has the turn
	idle    bool  // the turn is free, and the mover sleeps
	pace    pace  // says whether senders move what they sent themselves
	closed  error // why no more is taken

	queued  int // counted bytes in pending, in own, and with the mover
	replies int // copied replies to READs there
	frames  uint64
	full    uint64
}

// NewOutbox bounds the queued bytes by limit.
func NewOutbox(limit int) *Outbox {
	return &Outbox{limit: limit, wake: make(chan struct{}, 1)}
}

// CopyMax is for streams: a payload of 64 bytes that is kept apart costs two
// more pieces of a writev and 100 bytes of bookkeeping.
const CopyMax = 1 << 10

// NewStreamOutbox is an outbox that copies payloads up to CopyMax.
func NewStreamOutbox(limit int) *Outbox {
	o := NewOutbox(limit)
	o.copy = CopyMax
	return o
}

// Send queues frames without payload. See Link.Send.
func (o *Outbox) Send(frames []byte) error {
	n, ok := wire.Count(frames)
	if !ok {
		return notFrames(frames, n)
	}
	return o.put(frames, n, o.limit, nil, true)
}

func notFrames(frames []byte, n int) error {
	return fmt.Errorf("%w: Send wants whole frames without payload, got %d bytes with %d such in front", ErrProtocol, len(frames), n)
}

// SendPayload queues one frame and its payload. See Link.SendPayload.
func (o *Outbox) SendPayload(frame, payload []byte, release func()) error {
	return o.sendPayload(frame, payload, release, true)
}

func (o *Outbox) sendPayload(frame, payload []byte, release func(), flush bool) error {
	p := Part{Payload: payload, release: release}
	if h, need, err := wire.Scan(frame, wire.PayloadMax); err != nil || need > 0 || len(frame) != h.Size() || h.Payload != len(payload) {
		p.Release()
		return fmt.Errorf("%w: SendPayload wants one frame that announces its %d bytes of payload", ErrProtocol, len(payload))
	}
	err := o.put(frame, 1, o.limit, &p, flush)
	if err != nil {
		p.Release()
	}
	return err
}

// Reply queues a frame of the link's own (a pong, a reply to a READ) beyond
// the limit: their number is bounded by the protocol.
func (o *Outbox) Reply(frame []byte) error { return o.put(frame, 1, unbounded, nil, true) }

// ReplyPinned is Reply with a pinned slab as the payload; it is unpinned once
// the bytes have left or were copied (or now, on error). ErrFull: the peer asks for more
// than ReadsLimit and does not read the replies. It wakes nobody: Flush does, once for all
// replies to what one read of the socket has brought.
func (o *Outbox) ReplyPinned(frame, payload []byte, slabs SlabSource, ref wire.SlabRef) error {
	p := Part{Payload: payload, slabs: slabs, pinned: ref}
	err := o.put(frame, 1, unbounded, &p, false)
	if err != nil {
		p.Release()
	}
	return err
}

// Ping queues a frame that may be left out: when the box is overfull, nobody
// reads at the other end anyway.
func (o *Outbox) Ping(frame []byte) error { return o.put(frame, 1, 2*o.limit, nil, true) }

const unbounded = 1 << 62

// put appends frames and at most one payload, all or nothing.
func (o *Outbox) put(frames []byte, count, limit int, p *Part, flush bool) error {
	copied := p != nil && len(p.Payload) <= o.copy
	o.mu.Lock()
	if err := o.refuseLocked(frames, limit, p, copied); err != nil {
		o.mu.Unlock()
		return err
	}
	o.frames += uint64(count)
	o.queued += len(frames)
	b := &o.pending
	b.Bytes = append(b.Bytes, frames...)
	if p != nil {
		o.queued += p.Counted()
		if copied {
			b.copyIn(p)
		} else {
			p.End = len(b.Bytes)
			b.Parts = append(b.Parts, *p)
		}
	}
	if flush {
		o.flushLocked()
	}
	o.mu.Unlock()
	if copied {
		p.Release()
	}
	return nil
}

// refuseLocked says why an entry is not taken, or takes a copied reply's place. A payload
// that alone is beyond the limit is taken while the box is not half full, or it could never be
// sent: the link's own frames, heartbeats say, may be before it at any time.
func (o *Outbox) refuseLocked(frames []byte, limit int, p *Part, copied bool) error {
	if o.closed != nil {
		return o.closed
	}
	size := len(frames)
	if p != nil {
		size += p.Counted()
	}
	if alone := p != nil && size > limit && o.queued <= limit/2; o.queued+size > limit && !alone {
		o.full++
		return ErrFull
	}
	if copied && p.slabs != nil {
		if o.replies >= ReadsLimit {
			o.full++
			return ErrFull
		}
		o.replies++
	}
	return nil
}

// rouse leaves a token; one that nobody fetched yet is enough.
func (o *Outbox) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Close refuses everything from now on with err; what is queued can still be
// taken. The first call counts.
func (o *Outbox) Close(err error) {
	o.mu.Lock()
	if o.closed == nil {
		o.closed = err
	}
	wake := o.idle
	o.idle = false
	o.mu.Unlock()
	if wake {
		o.rouse()
	}
}

// Take swaps what is queued against b's emptied buffers and waits while there
// is nothing; false: the box is closed and empty. One goroutine only.
func (o *Outbox) Take(b *Batch) bool {
	for {
		if got, open := o.TryTake(b); got || !open {
			return got
		}
		<-o.wake
	}
}

// TryTake is Take without waiting. Where nothing was got, the next entry
// brings a token on Wake.
func (o *Outbox) TryTake(b *Batch) (got, open bool) {
	moved := b.replies
	b.reset()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.replies -= moved
	if len(o.pending.Bytes) == 0 {
		o.idle = o.closed == nil
		return false, o.closed == nil
	}
	*b, o.pending = o.pending, *b
	return true, true
}

// Wake brings a token when TryTake is worth calling again.
func (o *Outbox) Wake() <-chan struct{} { return o.wake }

// Moved tells that n counted bytes (see Part.Counted) have left: there is room.
func (o *Outbox) Moved(n int) {
	o.mu.Lock()
	o.queued -= n
	o.mu.Unlock()
}

// Counts are the frames taken in and the Sends refused so far.
func (o *Outbox) Counts() (frames, full uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.frames, o.full
}
