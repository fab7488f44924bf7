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
// Invariants:
//  1. Frames leave in the order in which they came in.
//  2. A payload's release runs exactly once: when its batch was moved, or when
//     it was refused, or when the link died.
//  3. queued counts every byte from entry until Moved, so a slow peer fills
//     the box and not the memory. The pinned payloads of replies to READs are
//     not counted: they cost no memory here, their number is bounded by
//     ReadsLimit, and a side that serves many must still be able to send. Those
//     that are copied give their slab back at once, so who serves READs no longer
//     knows how many lie here: replies counts them, up to ReadsLimit.
//
// Where copying small payloads is cheaper than keeping them apart (CopyMax), they
// lie behind their frames in Bytes, and are released before Send returns.
//
// Rejected: a ring of frames (a lock-free one cannot hold the all-or-nothing
// promise of Send for several frames and payloads by reference), a channel of
// byte slices (an allocation a frame, and one wake-up each).
type Outbox struct {
	limit int                // Immutable.
	copy  int                // Immutable: payloads up to this are copied.
	wake  chan struct{}      // Capacity 1; a token only after idle was set.
	near  func(b []byte) int // Immutable once the mover runs; see Direct.

	mu      sync.Mutex // Guards what follows.
	pending Batch
	queued  int
	replies int   // copied replies to READs that were not moved yet
	idle    bool  // The mover sleeps.
	pace    pace  // Says whether senders move what they sent themselves.
	own     Batch // Whose turn it is to move by itself; see flushLocked.
	closed  error // Why no more is taken.
	full    uint64
	frames  uint64
}

// Batch is what the mover takes: frames, some with a payload behind them.
type Batch struct {
	Bytes []byte // frames, headers and bodies
	Parts []Part // payloads, in order

	free    int // bytes of Bytes that do not count
	replies int // copied replies to READs
	small   int // fills in a row that used little of Bytes
}

// Part is a payload that follows the frame that ends at Bytes[End].
type Part struct {
	End     int
	Payload []byte

	release func()
	slabs   SlabSource // Unpinned instead of release, when not nil: saves a closure a READ.
	pinned  wire.SlabRef
}

// A buffer beyond batchKeep is let go after batchSmall fills in a row that used
// less than an eighth of it. (At once would be wrong: under load large and
// small batches alternate, and growing anew each time was most of the cost.)
const (
	batchKeep  = 256 << 10
	batchSmall = 1000
)

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

// put appends frames and at most one payload. A payload that alone is beyond
// the limit is taken when the box is empty, or it could never be sent.
func (o *Outbox) put(frames []byte, count, limit int, p *Part, flush bool) error {
	size := len(frames)
	if p != nil {
		size += p.Counted()
	}
	o.mu.Lock()
	if o.closed != nil {
		o.mu.Unlock()
		return o.closed
	}
	if o.queued+size > limit && (p == nil || o.queued > 0) {
		o.full++
		o.mu.Unlock()
		return ErrFull
	}
	copied := p != nil && len(p.Payload) <= o.copy
	if copied && p.slabs != nil {
		if o.replies >= ReadsLimit {
			o.full++
			o.mu.Unlock()
			return ErrFull
		}
		o.replies++
		o.pending.replies++
	}
	o.queued += size
	o.frames += uint64(count)
	o.pending.Bytes = append(o.pending.Bytes, frames...)
	switch {
	case copied:
		o.pending.Bytes = append(o.pending.Bytes, p.Payload...)
		o.pending.free += len(p.Payload) - p.Counted()
	case p != nil:
		p.End = len(o.pending.Bytes)
		o.pending.Parts = append(o.pending.Parts, *p)
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

// Counted is how many bytes of the payload count against the box's limit.
func (p *Part) Counted() int {
	if p.slabs != nil {
		return 0
	}
	return len(p.Payload)
}

// Counted is how many bytes of b count against the box's limit.
func (b *Batch) Counted() int {
	n := len(b.Bytes) - b.free
	for i := range b.Parts {
		n += b.Parts[i].Counted()
	}
	return n
}

// Settle says how many of the next n bytes of Bytes count against the box's limit,
// for movers that tell it piece by piece.
func (b *Batch) Settle(n int) int {
	free := min(n, b.free)
	b.free -= free
	return n - free
}

// Release lets all payloads go that were not yet. For a batch that will not be
// moved any more.
func (b *Batch) Release() {
	for i := range b.Parts {
		b.Parts[i].Release()
	}
}

// reset empties b for the next fill and lets go of references.
func (b *Batch) reset() {
	clear(b.Parts)
	if len(b.Bytes) >= cap(b.Bytes)/8 {
		b.small = 0
	} else if b.small++; b.small > batchSmall && cap(b.Bytes) > batchKeep {
		b.Bytes, b.small = nil, 0
	}
	b.Bytes, b.Parts, b.free = b.Bytes[:0], b.Parts[:0], 0
	b.replies = 0
}

// Release tells the payload's owner that its bytes are not needed any more;
// further calls do nothing.
func (p *Part) Release() {
	release, slabs := p.release, p.slabs
	p.release, p.slabs = nil, nil
	if release != nil {
		release()
	}
	if slabs != nil {
		slabs.Unpin(p.pinned)
	}
}
