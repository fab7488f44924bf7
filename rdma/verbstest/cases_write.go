package verbstest

import (
	"bytes"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// write is a signalled WRITE of our bytes at from to the peer's at to.
func (e *end) write(id uint64, from int, peer *memory, to, n int) rdma.SendWR {
	return rdma.SendWR{ID: id, Op: rdma.OpWrite, Remote: peer.address(to), RKey: peer.RKey(),
		SGEs: [2]rdma.SGE{e.mem.piece(from, n)}, NumSGE: 1, Signaled: true}
}

// testWrite looks at the bytes only after a SEND behind the WRITE has come: its
// completion at the sender does not promise that the peer's processor sees them.
func testWrite(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	const n = 50000
	a.mem.paint(6)
	b.postRecv(rdma.RecvWR{ID: 1, SGE: b.mem.piece(200000, 16)})
	a.post(a.write(2, 10, b.mem, 20, n), a.send(3, 0, 16))
	got := await(t, a.sendCQ, 2)
	a.want(got[0], 2, rdma.DidWrite)
	a.want(got[1], 3, rdma.DidSend)
	b.received(1, 16)
	if !bytes.Equal(b.mem.bytes[20:20+n], a.mem.bytes[10:10+n]) {
		t.Fatal("the bytes differ")
	}
	if b.mem.bytes[19] != 0 || b.mem.bytes[20+n] != 0 {
		t.Fatal("bytes outside were written")
	}
}

func testWriteImm(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	const n = 10000
	a.mem.paint(7)
	b.postRecv(rdma.RecvWR{ID: 1}, rdma.RecvWR{ID: 2, SGE: b.mem.piece(100000, 64)})
	wr := a.write(3, 0, b.mem, 50, n)
	wr.Op, wr.Imm = rdma.OpWriteImm, 0x01020304
	last := a.write(4, 0, b.mem, 50, 8)
	last.Op, last.Imm = rdma.OpWriteImm, 0xfffefdfc
	a.post(wr, last)
	got := await(t, b.recvCQ, 2)
	b.want(got[0], 1, rdma.DidRecvImm)
	b.want(got[1], 2, rdma.DidRecvImm)
	if got[0].Imm != 0x01020304 || got[0].Bytes != n || got[1].Imm != 0xfffefdfc || got[1].Bytes != 8 {
		t.Fatalf("%+v", got)
	}
	if !bytes.Equal(b.mem.bytes[50:50+n], a.mem.bytes[:n]) {
		t.Fatal("the bytes differ")
	}
	if !bytes.Equal(b.mem.bytes[100000:100064], make([]byte, 64)) {
		t.Fatal("a WRITE touched the memory of the receive that it ended")
	}
	for i, c := range await(t, a.sendCQ, 2) {
		a.want(c, uint64(3+i), rdma.DidWrite)
	}
}

// testWriteImmEmpty sends nothing but the immediate.
func testWriteImmEmpty(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	b.postRecv(rdma.RecvWR{ID: 1})
	a.post(rdma.SendWR{ID: 2, Op: rdma.OpWriteImm, Remote: b.mem.address(0), RKey: b.mem.RKey(), Imm: 77, Signaled: true})
	a.sent(2, rdma.DidWrite)
	c := await(t, b.recvCQ, 1)[0]
	b.want(c, 1, rdma.DidRecvImm)
	if c.Imm != 77 || c.Bytes != 0 {
		t.Fatalf("%+v", c)
	}
}
