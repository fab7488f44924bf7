package tcp

import (
	"fmt"
	"net"

	"github.com/symphony-serving/symphony/transport"
)

// A writev carries at most so many pieces and about so many bytes, so that
// room in the outbox and payloads are given back while a large batch leaves.
const (
	piecesMax = 128
	writeMax  = 256 << 10
)

// writer moves batches from the outbox to the socket.
type writer struct {
	l      *link
	pieces [piecesMax][]byte
	bufs   net.Buffers // a view of pieces; a field, so that WriteTo does not allocate
}

// write is the writer goroutine: it takes all that is queued, until the outbox
// is closed and empty. Once the link is broken it only releases.
func (l *link) write() {
	defer close(l.wrote)
	w := writer{l: l}
	var b transport.Batch
	for l.out.Take(&b) {
		if l.state.Load() != stateBroken {
			if err := w.move(&b); err != nil {
				l.end(fmt.Errorf("%w: %w", transport.ErrClosed, err), stateBroken)
			}
		}
		b.Release()
	}
	l.conn.CloseWrite()
}

// move sends a batch in groups of pieces.
func (w *writer) move(b *transport.Batch) error {
	from, part := 0, 0
	for from < len(b.Bytes) {
		n, size, counted, first := 0, 0, 0, part
		for n+2 <= piecesMax && size < writeMax && from < len(b.Bytes) {
			to := len(b.Bytes)
			if part < len(b.Parts) {
				to = b.Parts[part].End
			}
			to = min(to, from+writeMax)
			w.pieces[n] = b.Bytes[from:to]
			n, size, counted, from = n+1, size+to-from, counted+to-from, to
			if part < len(b.Parts) && from == b.Parts[part].End {
				p := &b.Parts[part]
				w.pieces[n] = p.Payload
				n, size, counted, part = n+1, size+len(p.Payload), counted+p.Counted(), part+1
			}
		}
		if err := w.send(n); err != nil {
			return err
		}
		for i := first; i < part; i++ {
			b.Parts[i].Release()
		}
		w.l.out.Moved(counted)
		w.l.bytesOut.Add(uint64(size))
	}
	return nil
}

// send writes the first n pieces: one system call, unless the socket is full.
func (w *writer) send(n int) (err error) {
	if n == 1 {
		_, err = w.l.conn.Write(w.pieces[0])
	} else {
		w.bufs = w.pieces[:n]
		_, err = w.bufs.WriteTo(w.l.conn)
	}
	clear(w.pieces[:n])
	return err
}
