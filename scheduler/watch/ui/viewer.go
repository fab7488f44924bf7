package ui

import "sync/atomic"

// viewer is one who follows the stream.
type viewer struct {
	chunks chan *chunk // closed when it is cut off
}

// chunk is what viewers are sent at a time. The last of them that has sent it on gives it back; one that
// is cut off does not, and the chunks that it had are the collector's.
type chunk struct {
	text    []byte
	readers atomic.Int32 // those that have not sent it
}

const (
	// sparesMost is how many chunks are kept for the next ones.
	sparesMost = 4
	// spareBytes is how large a chunk may be that is kept.
	spareBytes = 1 << 20
)

// newChunk is an empty one.
func (h *Hub) newChunk() *chunk {
	select {
	case c := <-h.spare:
		c.text = c.text[:0]
		return c
	default:
		return &chunk{}
	}
}

// sent is called by a viewer that has sent a chunk.
func (h *Hub) sent(c *chunk) {
	if c.readers.Add(-1) > 0 || cap(c.text) > spareBytes {
		return
	}
	select {
	case h.spare <- c:
	default:
	}
}

// dropSpares gives their memory back.
func (h *Hub) dropSpares() {
	for {
		select {
		case <-h.spare:
		default:
			return
		}
	}
}

// hand gives all viewers a chunk. Who has too many already is cut off. Caller holds mu.
func (h *Hub) hand(c *chunk) {
	c.readers.Store(int32(len(h.viewers)))
	for v := range h.viewers {
		select {
		case v.chunks <- c:
		default:
			h.cut(v)
		}
	}
}

func (h *Hub) cut(v *viewer) {
	if h.viewers[v] {
		delete(h.viewers, v)
		close(v.chunks)
	}
}

func (h *Hub) cutAll() {
	for v := range h.viewers {
		h.cut(v)
	}
}
