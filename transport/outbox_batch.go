package transport

import "github.com/symphony-serving/symphony/transport/wire"

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

// Counted is how many bytes of the payload count against the box's limit.
func (p *Part) Counted() int {
	if p.slabs != nil {
		return 0
	}
	return len(p.Payload)
}

// copyIn puts the payload behind its frame, which is the last one.
func (b *Batch) copyIn(p *Part) {
	b.Bytes = append(b.Bytes, p.Payload...)
	b.free += len(p.Payload) - p.Counted()
	if p.slabs != nil {
		b.replies++
	}
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
