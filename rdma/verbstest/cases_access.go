package verbstest

import (
	"bytes"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// refused posts what b's device must refuse, with two sends behind it: the first
// ends in RemoteAccess and the rest is flushed, at both ends.
func refused(t *testing.T, a, b *end, wr rdma.SendWR) {
	t.Helper()
	b.postRecv(b.recvs(50, 2)...)
	quiet := a.send(11, 0, 16)
	quiet.Signaled = false
	wr.ID = 10
	a.post(wr, quiet, a.send(12, 0, 16))
	got := await(t, a.sendCQ, 3)
	a.wantStatus(got[0], 10, rdma.StatusRemoteAccess)
	a.wantStatus(got[1], 11, rdma.StatusFlushed) // unsignalled, but in error
	a.wantStatus(got[2], 12, rdma.StatusFlushed)
	// The responder's QP is in ERR too: its receives come back, unused.
	for i, c := range await(t, b.recvCQ, 2) {
		b.wantStatus(c, uint64(50+i), rdma.StatusFlushed)
	}
}

func testWrongRKey(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	wr := a.read(0, 0, b.mem, 0, 1000)
	wr.RKey ^= 0x5500 // in the upper 24 bits, which name the region; the lower 8 are its generation
	refused(t, a, b, wr)
}

// testStaleRKey: what could be read cannot once its region is closed.
func testStaleRKey(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	m := b.memory(8192, rdma.LocalWrite|rdma.RemoteRead)
	m.paint(8)
	wr := a.read(1, 0, m, 0, 8192)
	a.post(wr)
	a.sent(1, rdma.DidRead)
	if !bytes.Equal(a.mem.bytes[:8192], m.bytes) {
		t.Fatal("the bytes differ")
	}
	if err := m.Region.Close(); err != nil {
		t.Fatal(err)
	}
	m.Region = nil
	refused(t, a, b, wr)
}

func testRemoteOutside(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	m := b.memory(8192, all)
	wr := a.read(0, 0, m, 8192-100, 100)
	wr.SGEs[0].Length++ // one byte over the end
	refused(t, a, b, wr)
}

func testReadWithoutRight(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	m := b.memory(8192, rdma.LocalWrite|rdma.RemoteWrite)
	refused(t, a, b, a.read(0, 0, m, 0, 100))
}

func testWriteWithoutRight(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	m := b.memory(8192, rdma.LocalWrite|rdma.RemoteRead)
	a.mem.paint(9)
	refused(t, a, b, a.write(0, 0, m, 0, 100))
	if !bytes.Equal(m.bytes, make([]byte, 8192)) {
		t.Fatal("the memory was written to")
	}
}

// testWrongLKey: soft-RoCE calls it an operation error, NICs a protection error.
func testWrongLKey(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	b.postRecv(b.recvs(0, 1)...)
	m := a.memory(4096, rdma.LocalWrite)
	wr := a.send(1, 0, 16)
	wr.SGEs[0] = m.piece(0, 16)
	if err := m.Region.Close(); err != nil {
		t.Fatal(err)
	}
	m.Region = nil
	a.post(wr, a.send(2, 0, 16))
	got := await(t, a.sendCQ, 2)
	a.wantStatus(got[0], 1, rdma.StatusLocalProtection, rdma.StatusLocalQP)
	a.wantStatus(got[1], 2, rdma.StatusFlushed)
}

// testReadIntoReadOnly: a READ writes to local memory, which needs that right.
func testReadIntoReadOnly(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	m := a.memory(4096, rdma.RemoteRead)
	b.mem.paint(10)
	wr := a.read(1, 0, b.mem, 0, 16)
	wr.SGEs[0] = m.piece(0, 16)
	a.post(wr)
	a.wantStatus(await(t, a.sendCQ, 1)[0], 1, rdma.StatusLocalProtection, rdma.StatusLocalQP)
	if !bytes.Equal(m.bytes[:16], make([]byte, 16)) {
		t.Fatal("the memory was written to")
	}
}

// testTooLong: the receiver's own entry says that the length is wrong (NICs), or
// what it told the sender (soft-RoCE).
func testTooLong(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	b.postRecv(rdma.RecvWR{ID: 1, SGE: b.mem.piece(0, 64)}, rdma.RecvWR{ID: 2, SGE: b.mem.piece(64, 64)})
	a.post(a.send(3, 0, 65), a.send(4, 0, 16))
	got := await(t, a.sendCQ, 2)
	a.wantStatus(got[0], 3, rdma.StatusRemoteInvalid, rdma.StatusRemoteOperation) // soft-RoCE: the latter
	a.wantStatus(got[1], 4, rdma.StatusFlushed)
	got = await(t, b.recvCQ, 2)
	b.wantStatus(got[0], 1, rdma.StatusLocalLength, rdma.StatusRemoteInvalid, rdma.StatusLocalQP)
	b.wantStatus(got[1], 2, rdma.StatusFlushed)
}
