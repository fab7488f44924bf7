//go:build rdma && cgo && linux

package verbs

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// TestRead moves 150 KB, an image's tensor, in two pieces of local memory, while
// the collector runs.
func TestRead(t *testing.T) {
	p := connect(t)
	const size = 150 << 10
	from, to := allocate(t, p.device, size), allocate(t, p.device, size+64)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range from.bytes {
		from.bytes[i] = byte(random.Uint32())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			runtime.GC()
		}
	}()
	for round := range 3 {
		clear(to.bytes)
		const first = 100_000
		p.send(t, 0, rdma.SendWR{
			ID: uint64(round), Op: rdma.OpRead, Remote: from.at(0), RKey: from.region.RKey(),
			SGEs: [2]rdma.SGE{to.sge(0, first), to.sge(first+64, size-first)}, NumSGE: 2, Signaled: true,
		})
		p.one(t, 0, rdma.Completion{ID: uint64(round), Kind: rdma.DidRead})
		got := append(bytes.Clone(to.bytes[:first]), to.bytes[first+64:]...)
		if !bytes.Equal(got, from.bytes) || !bytes.Equal(to.bytes[first:first+64], make([]byte, 64)) {
			t.Fatalf("round %d: other bytes came than were sent", round)
		}
	}
	<-done
}

// TestSendRecv: messages arrive in order in what was posted for them, and only the
// signalled sends complete.
func TestSendRecv(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 1<<16)
	const n = 100 // more than one chain of data.c, and not a multiple of it
	recvs, sends := make([]rdma.RecvWR, n), make([]rdma.SendWR, n)
	for i := range n {
		copy(mem.bytes[i*64:], []byte{byte(i), byte(i + 1)})
		recvs[i] = rdma.RecvWR{ID: uint64(1000 + i), SGE: mem.sge(1<<15+i*64, 64)}
		sends[i] = rdma.SendWR{ID: uint64(i), Op: rdma.OpSend, SGEs: [2]rdma.SGE{mem.sge(i*64, 2+i%10)}, NumSGE: 1, Signaled: i == n-1}
	}
	p.recv(t, 1, recvs...)
	p.send(t, 0, sends...)
	for i, c := range p.completions(t, 1, n) {
		if want := (rdma.Completion{ID: uint64(1000 + i), Kind: rdma.DidRecv, Bytes: uint32(2 + i%10), QP: p.qp[1].Number()}); c != want {
			t.Fatalf("receive %d: got %+v, want %+v", i, c, want)
		}
		if at := 1<<15 + i*64; mem.bytes[at] != byte(i) || mem.bytes[at+1] != byte(i+1) {
			t.Fatalf("message %d: other bytes", i)
		}
	}
	p.one(t, 0, rdma.Completion{ID: n - 1, Kind: rdma.DidSend})
}

// TestWriteImm: the bytes lie there when the immediate arrives, which consumes a
// receive without memory.
func TestWriteImm(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 8192)
	copy(mem.bytes, "a completion's news")
	p.recv(t, 1, rdma.RecvWR{ID: 7})
	p.send(t, 0, rdma.SendWR{
		ID: 8, Op: rdma.OpWriteImm, Imm: 0xfeed0042, Remote: mem.at(4096), RKey: mem.region.RKey(),
		SGEs: [2]rdma.SGE{mem.sge(0, 19)}, NumSGE: 1, Signaled: true,
	})
	p.one(t, 1, rdma.Completion{ID: 7, Kind: rdma.DidRecvImm, Imm: 0xfeed0042, Bytes: 19})
	if got := string(mem.bytes[4096:4115]); got != "a completion's news" {
		t.Errorf("wrote %q", got)
	}
	p.one(t, 0, rdma.Completion{ID: 8, Kind: rdma.DidWrite})
}

// TestWrongKey: a READ with a key that is nobody's ends with the peer's refusal,
// and the QP with it.
func TestWrongKey(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 4096)
	wr := rdma.SendWR{ID: 1, Op: rdma.OpRead, Remote: mem.at(0), RKey: mem.region.RKey() ^ 0xffff00, SGEs: [2]rdma.SGE{mem.sge(0, 64)}, NumSGE: 1, Signaled: true}
	after := wr
	after.ID, after.RKey, after.Signaled = 2, mem.region.RKey(), false
	p.send(t, 0, wr, after)
	got := p.completions(t, 0, 2)
	if got[0].ID != 1 || got[0].Status != rdma.StatusRemoteAccess {
		t.Errorf("got %+v, want %v", got[0], rdma.StatusRemoteAccess)
	}
	if got[1].ID != 2 || got[1].Status != rdma.StatusFlushed {
		t.Errorf("got %+v, want %v", got[1], rdma.StatusFlushed)
	}
}

// TestFlush: after Fail every posted work request completes, signalled or not, and
// each once.
func TestFlush(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 4096)
	// No receive is posted at the peer, so sends wait (RNR retries for ever).
	var sends []rdma.SendWR
	var recvs []rdma.RecvWR
	for i := range 20 {
		sends = append(sends, rdma.SendWR{ID: uint64(i), Op: rdma.OpSend, SGEs: [2]rdma.SGE{mem.sge(0, 8)}, NumSGE: 1, Signaled: i%5 == 0})
		recvs = append(recvs, rdma.RecvWR{ID: uint64(100 + i), SGE: mem.sge(64, 8)})
	}
	p.recv(t, 0, recvs...)
	p.send(t, 0, sends...)
	ok(t, p.qp[0].Fail())
	seen := map[uint64]int{}
	for _, c := range p.completions(t, 0, 40) {
		seen[c.ID]++
		if c.Status != rdma.StatusFlushed || c.QP != p.qp[0].Number() {
			t.Errorf("got %+v, want %v", c, rdma.StatusFlushed)
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d different work requests were flushed, want 40: %v", len(seen), seen)
	}
}

// TestPostTooMany: what does not fit is refused, and what did is counted.
func TestPostTooMany(t *testing.T) {
	p := connect(t)
	wrs := make([]rdma.RecvWR, 4096)
	n, err := p.qp[0].PostRecv(wrs)
	if err == nil || n < depth || n >= len(wrs) {
		t.Errorf("posted %d receives, error %v; want %d or some more, and an error", n, err, depth)
	}
}
