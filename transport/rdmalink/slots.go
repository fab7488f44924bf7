package rdmalink

import "github.com/symphony-serving/symphony/rdma"

// The ring of a lane's messages, and its credits. Under the link's tx.mu.

// push takes the slot behind the last message.
func (ln *lane) push() (*message, []byte) {
	i := (ln.head + ln.used) % len(ln.messages)
	ln.used++
	m := &ln.messages[i]
	*m = message{parts: m.parts[:0]}
	return m, ln.slot(i)
}

// pop gives the slot of push back: it was not used after all.
func (ln *lane) pop() { ln.used-- }

// pop0 takes the oldest message out.
func (ln *lane) pop0() {
	m := &ln.messages[ln.head]
	clear(m.parts)
	m.payload = nil
	ln.head = (ln.head + 1) % len(ln.messages)
	ln.used--
}

// credit is how many receives of the peer are free. The last one is kept for a
// message of credits alone: were both sides to use up all for data, neither could
// tell the other that it may go on.
func (ln *lane) credit() int {
	return int(ln.peer.Buffers) - int(ln.sent-ln.peerConsumed.Load())
}

// owesCredit reports whether the peer should be told of receives that it may use:
// from a quarter on, as data in the other direction tells it for nothing.
func (ln *lane) owesCredit() bool {
	c := &ln.l.n.cfg
	return int(ln.consumed.Load()-ln.reported) >= max(1, c.Buffers/4) || int(ln.freedNow.Load()-ln.reportedEnd) >= c.Landing/4
}

// land finds room in the peer's landing zone for a message with n bytes in front of
// a chunk of at most rest bytes.
func (ln *lane) land(n, rest int) (chunk int, offset uint32, ok bool) {
	size := int(ln.peer.Landing.Size)
	chunk = min(rest, min(size/4, chunkMax)-n)
	offset, end := landingPlace(ln.landed, n+chunk, size)
	if int(end-ln.peerFreed.Load()) > size {
		return 0, 0, false
	}
	ln.landed = end
	return chunk, offset, true
}

// seal writes the header, takes a credit, and makes the work request of a message.
func (ln *lane) seal(m *message, slot []byte, lkey uint32) rdma.SendWR {
	consumed, freed := ln.consumed.Load(), ln.freedNow.Load()
	putHeader(slot, m.sequence, consumed, freed)
	ln.reported, ln.reportedEnd = consumed, freed
	ln.sent++
	i := (ln.head + ln.used - 1) % len(ln.messages) // the one that push gave out
	wr := rdma.SendWR{ID: uint64(idMessage) | uint64(i), Op: rdma.OpSend, NumSGE: 1,
		SGEs: [2]rdma.SGE{{Addr: rdma.AddressOf(slot), Length: uint32(m.size), LKey: ln.lkey}}}
	if m.payload != nil {
		wr.NumSGE = 2
		wr.SGEs[1] = rdma.SGE{Addr: rdma.AddressOf(m.payload), Length: uint32(len(m.payload)), LKey: lkey}
	}
	ln.l.laneOut.Add(uint64(m.size + len(m.payload)))
	return wr
}

// arrived takes the oldest message out: the device says that the peer's has it. On
// the polling thread.
func (ln *lane) arrived() {
	t := &ln.l.tx
	t.mu.Lock()
	defer t.mu.Unlock()
	if ln.used == 0 {
		return
	}
	m := &ln.messages[ln.head]
	ln.moved += m.counted
	ln.released = append(ln.released, m.parts...)
	ln.pop0()
}
