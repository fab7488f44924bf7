package verbstest

import (
	"bytes"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// read is a signalled READ of the peer's bytes at from into ours at to.
func (e *end) read(id uint64, to int, peer *memory, from, n int) rdma.SendWR {
	return rdma.SendWR{ID: id, Op: rdma.OpRead, Remote: peer.address(from), RKey: peer.RKey(),
		SGEs: [2]rdma.SGE{e.mem.piece(to, n)}, NumSGE: 1, Signaled: true}
}

func testReadBig(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	const n = 150 << 10
	b.mem.paint(1)
	a.post(a.read(1, 100, b.mem, 200, n))
	a.sent(1, rdma.DidRead)
	if !bytes.Equal(a.mem.bytes[100:100+n], b.mem.bytes[200:200+n]) {
		t.Fatal("the bytes differ")
	}
	for _, x := range append(a.mem.bytes[:100:100], a.mem.bytes[100+n:]...) {
		if x != 0 {
			t.Fatal("bytes outside were written")
		}
	}
}

// testReadsInOrder has more READs posted than may be in flight.
func testReadsInOrder(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	const pieces, n = 16, 16 << 10
	b.mem.paint(2)
	var wrs []rdma.SendWR
	for i := range pieces { // turned round: the last piece first
		wrs = append(wrs, a.read(uint64(i), (pieces-1-i)*n, b.mem, i*n, n))
	}
	a.post(wrs...)
	for i, c := range await(t, a.sendCQ, pieces) {
		a.want(c, uint64(i), rdma.DidRead)
		if at := (pieces - 1 - i) * n; !bytes.Equal(a.mem.bytes[at:at+n], b.mem.bytes[i*n:(i+1)*n]) {
			t.Fatalf("piece %d differs", i)
		}
	}
}

func testReadScattered(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	b.mem.paint(3)
	wr := a.read(1, 0, b.mem, 0, 10000)
	wr.SGEs = [2]rdma.SGE{a.mem.piece(5, 7001), a.mem.piece(20000, 2999)}
	wr.NumSGE = 2
	a.post(wr)
	a.sent(1, rdma.DidRead)
	if !bytes.Equal(a.mem.bytes[5:7006], b.mem.bytes[:7001]) || !bytes.Equal(a.mem.bytes[20000:22999], b.mem.bytes[7001:10000]) {
		t.Fatal("the bytes differ")
	}
}
