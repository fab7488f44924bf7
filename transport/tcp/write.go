package tcp

import (
	"fmt"
	"net"
	"syscall"

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
			n, size, counted, from = n+1, size+to-from, counted+b.Settle(to-from), to
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

// sendDirectly lets senders write themselves while the link is at rest.
func (l *link) sendDirectly() {
	raw, err := l.conn.SyscallConn()
	if err != nil {
		return
	}
	d := &direct{raw: raw}
	d.once = d.try
	l.out.Direct(func(b []byte) int {
		if l.state.Load() != stateLive {
			return 0
		}
		n := d.write(b)
		l.bytesOut.Add(uint64(n))
		return n
	})
}

// direct writes without waiting; one caller at a time (see transport.Outbox.Direct).
type direct struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool // try, bound once
	b    []byte
	n    int
}

// write writes once and returns how much that was. An error is left to the writer,
// which meets it again.
func (d *direct) write(b []byte) int {
	d.b, d.n = b, 0
	if d.raw.Write(d.once) != nil {
		d.n = 0
	}
	d.b = nil
	return max(d.n, 0)
}

func (d *direct) try(fd uintptr) bool {
	d.n, _ = writeNow(fd, d.b)
	return true
}
