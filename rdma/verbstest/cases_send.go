package verbstest

import (
	"bytes"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// send is a signalled SEND of our bytes at from.
func (e *end) send(id uint64, from, n int) rdma.SendWR {
	return rdma.SendWR{ID: id, Op: rdma.OpSend, SGEs: [2]rdma.SGE{e.mem.piece(from, n)}, NumSGE: 1, Signaled: true}
}

// sends are n of them, IDs from first on, of 16 bytes each.
func (e *end) sends(first uint64, n int) []rdma.SendWR {
	var wrs []rdma.SendWR
	for i := range n {
		wrs = append(wrs, e.send(first+uint64(i), 16*i, 16))
	}
	return wrs
}

// recvs are n receives, IDs from first on, of 16 bytes each.
func (e *end) recvs(first uint64, n int) []rdma.RecvWR {
	var wrs []rdma.RecvWR
	for i := range n {
		wrs = append(wrs, rdma.RecvWR{ID: first + uint64(i), SGE: e.mem.piece(16*i, 16)})
	}
	return wrs
}

func testPingPong(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{depth: 4})
	const n = 4000
	for round := range uint64(50) {
		a.mem.paint(int(round))
		b.postRecv(rdma.RecvWR{ID: round, SGE: b.mem.piece(8192, n+100)}) // longer than what comes
		a.postRecv(rdma.RecvWR{ID: round + 1000, SGE: a.mem.piece(16384, n)})
		a.post(a.send(round, 0, n))
		a.sent(round, rdma.DidSend)
		b.received(round, n)
		if !bytes.Equal(b.mem.bytes[8192:8192+n], a.mem.bytes[:n]) {
			t.Fatalf("round %d: the bytes differ", round)
		}
		b.post(b.send(round, 8192, n))
		b.sent(round, rdma.DidSend)
		a.received(round+1000, n)
		if !bytes.Equal(a.mem.bytes[16384:16384+n], a.mem.bytes[:n]) {
			t.Fatalf("round %d: the bytes that came back differ", round)
		}
	}
}

func testGather(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	a.mem.paint(4)
	whole := append(bytes.Clone(a.mem.bytes[3:40]), a.mem.bytes[9000:14000]...)
	two := [2]rdma.SGE{a.mem.piece(3, 37), a.mem.piece(9000, 5000)}
	b.postRecv(rdma.RecvWR{ID: 1, SGE: b.mem.piece(0, len(whole))}, rdma.RecvWR{ID: 2})
	a.post(rdma.SendWR{ID: 3, Op: rdma.OpSend, SGEs: two, NumSGE: 2},
		rdma.SendWR{ID: 4, Op: rdma.OpWriteImm, SGEs: two, NumSGE: 2, Remote: b.mem.address(100000), RKey: b.mem.RKey(), Signaled: true})
	a.sent(4, rdma.DidWrite)
	got := await(t, b.recvCQ, 2)
	b.want(got[0], 1, rdma.DidRecv)
	b.want(got[1], 2, rdma.DidRecvImm)
	if int(got[0].Bytes) != len(whole) || int(got[1].Bytes) != len(whole) {
		t.Fatalf("lengths %d and %d, want %d", got[0].Bytes, got[1].Bytes, len(whole))
	}
	if !bytes.Equal(b.mem.bytes[:len(whole)], whole) || !bytes.Equal(b.mem.bytes[100000:100000+len(whole)], whole) {
		t.Fatal("the bytes differ")
	}
}

// testBurst posts and receives as many as the queues hold in a call each.
func testBurst(t *testing.T, f Fixture) {
	const n = 64
	a, b := connect(t, f, plan{depth: n})
	a.mem.paint(5)
	for round := range uint64(3) {
		b.postRecv(b.recvs(round*n, n)...)
		a.post(a.sends(round*n, n)...)
		for i, c := range await(t, b.recvCQ, n) {
			b.want(c, round*n+uint64(i), rdma.DidRecv)
		}
		for i, c := range await(t, a.sendCQ, n) {
			a.want(c, round*n+uint64(i), rdma.DidSend)
		}
		if !bytes.Equal(a.mem.bytes[:16*n], b.mem.bytes[:16*n]) {
			t.Fatal("the bytes differ")
		}
	}
}

func testBothWays(t *testing.T, f Fixture) {
	const n = 32
	a, b := connect(t, f, plan{depth: n})
	a.postRecv(a.recvs(100, n)...)
	b.postRecv(b.recvs(200, n)...)
	a.post(a.sends(300, n)...)
	b.post(b.sends(400, n)...)
	for _, e := range []struct {
		*end
		recvs, sends uint64
	}{{a, 100, 300}, {b, 200, 400}} {
		for i, c := range await(t, e.recvCQ, n) {
			e.want(c, e.recvs+uint64(i), rdma.DidRecv)
		}
		for i, c := range await(t, e.sendCQ, n) {
			e.want(c, e.sends+uint64(i), rdma.DidSend)
		}
	}
}

// testManyPosters has several goroutines post to one QP.
func testManyPosters(t *testing.T, f Fixture) {
	const posters, each = 4, 32
	a, b := connect(t, f, plan{depth: posters * each})
	b.postRecv(b.recvs(0, posters*each)...)
	errs := make(chan error, posters)
	for p := range posters {
		go func() {
			var err error
			for i := range each {
				if _, e := a.qp.PostSend([]rdma.SendWR{a.send(uint64(p*each+i), 0, 16)}); e != nil {
					err = e
				}
			}
			errs <- err
		}()
	}
	for range posters {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	var next [posters]int // of each poster, in its order
	for _, c := range await(t, a.sendCQ, posters*each) {
		p := int(c.ID) / each
		if p >= posters {
			t.Fatalf("nobody posted request %d", c.ID)
		}
		a.want(c, uint64(p*each+next[p]), rdma.DidSend)
		next[p]++
	}
	for i, c := range await(t, b.recvCQ, posters*each) {
		b.want(c, uint64(i), rdma.DidRecv)
	}
}
