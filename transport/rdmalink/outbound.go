package rdmalink

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// outbound makes messages of what is queued and sends them: over the lane, or over
// TCP where there is none. Whoever sent, or whoever learnt that there is room, does
// it on its own goroutine: posting costs less than waking another would.
//
// Invariants:
//  1. Messages are numbered in the order of the bytes in them, and each is sent
//     over one way; one that a lane lost is sent again over TCP with its number.
//  2. A message stays in the lane's ring until its arrival is known.
type outbound struct {
	l      *link
	wanted atomic.Int64 // calls of pump since the last turn that found no more

	mu    sync.Mutex // Guards what follows.
	mode  txMode
	lane  *lane // of txLane and txWait
	next  uint64
	batch transport.Batch
	from  int // bytes of batch.Bytes that are in messages
	part  int // of batch.Parts
	off   int // bytes of that part that are in messages
	wrs   []rdma.SendWR

	tunnelled atomic.Int64 // bytes that the TCP link has and has not sent
}

// txMode is the way that messages take.
type txMode uint8

const (
	txTunnel txMode = iota // over TCP
	txLane
	txWait // a lane was lost: until the peer says what it got
	txDead
)

// chunkMax bounds a WRITE, however large the peer's landing zone is: what is in a
// lane's slots must fit the TCP link's box, should the lane be lost.
const chunkMax = 64 << 10

// tunnelChunk is the largest message over TCP, tunnelMax about how many bytes of them
// the TCP link is given at a time.
const (
	tunnelChunk = 256 << 10
	tunnelMax   = 4 << 20
)

// postBurst is how many messages are posted at a time, signalEvery how many at most
// without a completion of their own. The last of a burst always has one, so that
// nothing waits for traffic that may not come.
const (
	postBurst   = 16
	signalEvery = 8
)

// message is one that was posted and is not known to have arrived.
type message struct {
	sequence uint64
	size     int // bytes in the slot, header included
	payload  []byte
	counted  int              // of the outbox's bytes
	parts    []transport.Part // whose last byte is in it
}

// pump moves what can be moved. One goroutine at a time; one that comes meanwhile
// leaves word.
func (t *outbound) pump() {
	if t.wanted.Add(1) > 1 {
		return
	}
	for {
		n := t.wanted.Load()
		t.mu.Lock()
		t.move()
		t.mu.Unlock()
		if t.wanted.CompareAndSwap(n, 0) {
			return
		}
	}
}

func (t *outbound) move() {
	switch t.mode {
	case txLane:
		t.moveLane()
	case txTunnel:
		t.moveTunnel()
	}
}

// more makes sure that there are bytes to move; false: there are none.
func (t *outbound) more() bool {
	if t.from < len(t.batch.Bytes) || t.part < len(t.batch.Parts) {
		return true
	}
	t.from, t.part, t.off = 0, 0, 0
	got, _ := t.l.out.TryTake(&t.batch)
	return got
}

// atPart reports whether a part's payload comes next.
func (t *outbound) atPart() bool {
	return t.part < len(t.batch.Parts) && t.batch.Parts[t.part].End == t.from
}

// run is the frames' bytes that come next, up to a part's payload.
func (t *outbound) run() []byte {
	to := len(t.batch.Bytes)
	if t.part < len(t.batch.Parts) {
		to = t.batch.Parts[t.part].End
	}
	return t.batch.Bytes[t.from:to]
}

// passPart moves on by n payload bytes; the part, if that was its end.
func (t *outbound) passPart(n int) (done transport.Part, ended bool) {
	p := &t.batch.Parts[t.part]
	if t.off += n; t.off < len(p.Payload) {
		return transport.Part{}, false
	}
	done, *p = *p, transport.Part{End: p.End}
	t.part, t.off = t.part+1, 0
	return done, true
}

// moveLane posts messages while the peer has receives, and we have slots, for them.
func (t *outbound) moveLane() {
	ln := t.lane
	for t.more() && ln.credit() > 1 && ln.used < len(ln.messages) {
		wr, ok := t.compose(ln)
		if !ok {
			break // no room in the landing zone
		}
		t.wrs = append(t.wrs, wr)
		if len(t.wrs) == postBurst {
			t.post(ln)
		}
	}
	if len(t.wrs) == 0 && ln.owesCredit() && ln.credit() > 0 && ln.used < len(ln.messages) {
		m, slot := ln.push()
		m.size = messageHeader
		t.wrs = append(t.wrs, ln.seal(m, slot, 0))
	}
	t.post(ln)
}

// post hands the composed messages to the device.
func (t *outbound) post(ln *lane) {
	if len(t.wrs) == 0 {
		return
	}
	for i := range t.wrs {
		if ln.unsignalled++; ln.unsignalled >= signalEvery || i == len(t.wrs)-1 {
			t.wrs[i].Signaled, ln.unsignalled = true, 0
		}
	}
	_ = ln.conn.Post(t.wrs) // a failed lane: they stay in its ring, and are sent again
	t.wrs = t.wrs[:0]
}

// compose makes the next message: a SEND of what fits the peer's receives or,
// where a payload lies in registered memory and does not fit, a WRITE of it.
func (t *outbound) compose(ln *lane) (wr rdma.SendWR, ok bool) {
	m, slot := ln.push()
	n := messageHeader
	for n < len(slot) && (t.from < len(t.batch.Bytes) || t.part < len(t.batch.Parts)) {
		if !t.atPart() {
			k := copy(slot[n:], t.run())
			n, t.from, m.counted = n+k, t.from+k, m.counted+k
			continue
		}
		rest := t.batch.Parts[t.part].Payload[t.off:]
		if lkey, direct := ln.l.n.cfg.NIC.LocalKey(rest); direct && len(rest) > len(slot)-n {
			chunk, offset, fits := ln.land(n, len(rest))
			if fits {
				m.payload = rest[:chunk]
				m.counted += chunk
				t.pass(m, chunk)
				m.size = n
				t.number(m)
				wr = ln.seal(m, slot, lkey)
				wr.Op, wr.Remote, wr.RKey, wr.Imm = rdma.OpWriteImm, ln.peer.Landing.Address+uint64(offset), ln.peer.Landing.RKey, offset/landingUnit
				t.l.n.counters.writes.Add(1)
				return wr, true
			}
			if n == messageHeader {
				ln.pop()
				return wr, false
			}
			break
		}
		k := copy(slot[n:], rest)
		n, m.counted = n+k, m.counted+k
		t.pass(m, k)
	}
	m.size = n
	t.number(m)
	t.l.n.counters.sends.Add(1)
	return ln.seal(m, slot, 0), true
}

// pass moves on in the present part; with its end the message takes it over.
func (t *outbound) pass(m *message, n int) {
	if p, ended := t.passPart(n); ended {
		m.parts = append(m.parts, p)
	}
}

func (t *outbound) number(m *message) {
	t.next++
	m.sequence = t.next
}

// moveTunnel sends messages over TCP, tunnelMax of them at a time: what a release
// frees is used at once. Frames' bytes are copied: this is the way while there is no
// lane.
func (t *outbound) moveTunnel() {
	for t.tunnelled.Load() < tunnelMax && t.more() {
		var data []byte
		var part transport.Part
		if t.atPart() {
			rest := t.batch.Parts[t.part].Payload[t.off:]
			data = rest[:min(len(rest), tunnelChunk)]
			part, _ = t.passPart(len(data))
		} else {
			data = t.run()
			data = append([]byte(nil), data[:min(len(data), tunnelChunk)]...)
			t.from += len(data)
		}
		t.next++
		t.tunnelled.Add(int64(len(data)))
		t.l.tunnel(t.next, data, func() {
			part.Release()
			t.l.out.Moved(len(data))
			if t.tunnelled.Add(-int64(len(data))) < tunnelMax/2 {
				t.pump()
			}
		})
	}
}

// tunnel sends one message over TCP. Its box holds tunnelMax and all that a lost lane
// may have to send again, so an error means that the link is over; any other would
// leave a gap in the stream, and ends it.
func (l *link) tunnel(sequence uint64, data []byte, release func()) {
	m := wire.LaneData{Sequence: sequence}
	if err := l.tcp.SendPayload(m.Append(nil, len(data)), data, release); err != nil && !errors.Is(err, transport.ErrClosed) {
		l.tcp.Close(err)
	}
}

// use makes a lane the way of all further messages.
func (t *outbound) use(ln *lane) {
	t.mu.Lock()
	t.mode, t.lane = txLane, ln
	t.mu.Unlock()
	t.pump()
}

// leave ends the use of a lane that is closed: nothing moves until resend. It
// reports whether the lane was used at all.
func (t *outbound) leave(ln *lane) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mode != txLane || t.lane != ln {
		return false
	}
	t.mode = txWait
	return true
}

// resend sends again over TCP what the peer did not get of a lost lane, from
// message next on; then TCP is the way.
func (t *outbound) resend(ln *lane, next uint64) {
	t.mu.Lock()
	moved := 0
	var parts []transport.Part
	for ; ln.used > 0; ln.pop0() {
		m := &ln.messages[ln.head]
		moved += m.counted
		parts = append(parts, m.parts...)
		if m.sequence >= next {
			data := append([]byte(nil), ln.slot(ln.head)[messageHeader:m.size]...)
			t.l.tunnel(m.sequence, append(data, m.payload...), nil)
		}
	}
	t.mode, t.lane = txTunnel, nil
	t.mu.Unlock()
	for i := range parts {
		parts[i].Release()
	}
	t.l.out.Moved(moved)
	t.pump()
}

// flushed reports whether nothing is queued or on its way over a lane.
func (t *outbound) flushed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mode == txDead {
		return true
	}
	return !t.more() && t.mode != txWait && (t.lane == nil || t.lane.used == 0)
}

// abandon lets everything go that was not sent: the link is over, its outbox closed.
func (t *outbound) abandon() {
	t.mu.Lock()
	var parts []transport.Part
	if ln := t.lane; ln != nil {
		for ; ln.used > 0; ln.pop0() {
			parts = append(parts, ln.messages[ln.head].parts...)
		}
		t.lane = nil
	}
	t.mode = txDead
	for t.more() {
		parts = append(parts, t.batch.Parts[t.part:]...)
		clear(t.batch.Parts)
		t.from, t.part = len(t.batch.Bytes), len(t.batch.Parts)
	}
	t.mu.Unlock()
	for i := range parts {
		parts[i].Release()
	}
}

// putHeader writes a message's header.
func putHeader(b []byte, sequence uint64, consumed, freed uint32) {
	binary.LittleEndian.PutUint64(b, sequence)
	binary.LittleEndian.PutUint32(b[8:], consumed)
	binary.LittleEndian.PutUint32(b[12:], freed)
}
