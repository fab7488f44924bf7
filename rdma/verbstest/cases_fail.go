package verbstest

import (
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
)

func testRNRExceeded(t *testing.T, f Fixture) {
	a, _ := connect(t, f, plan{rnrRetry: 1})
	a.post(a.sends(1, 3)...)
	got := await(t, a.sendCQ, 3)
	a.wantStatus(got[0], 1, rdma.StatusRNRExceeded)
	a.wantStatus(got[1], 2, rdma.StatusFlushed)
	a.wantStatus(got[2], 3, rdma.StatusFlushed)
}

// testRNRPatience: with RNRRetry 7 a send waits for its receive as long as it
// takes, and what is behind it keeps its place.
func testRNRPatience(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	a.post(a.sends(1, 3)...)
	for i := range uint64(3) {
		time.Sleep(10 * time.Millisecond) // several pauses of the sender's; asserts nothing
		if got := poll(t, a.sendCQ); len(got) != 0 {
			t.Fatalf("%+v before there is a receive", got)
		}
		b.postRecv(b.recvs(i, 1)...)
		b.received(i, 16)
		a.sent(1+i, rdma.DidSend)
	}
}

// testPeerClosed: nobody answers for a QP that was closed.
func testPeerClosed(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{timeout: 12, retry: 1})
	if err := b.qp.Close(); err != nil {
		t.Fatal(err)
	}
	b.qp = nil
	a.postRecv(a.recvs(5, 1)...)
	a.post(a.read(1, 0, b.mem, 0, 100), a.send(2, 0, 16))
	got := await(t, a.sendCQ, 2)
	a.wantStatus(got[0], 1, rdma.StatusRetryExceeded)
	a.wantStatus(got[1], 2, rdma.StatusFlushed)
	a.wantStatus(await(t, a.recvCQ, 1)[0], 5, rdma.StatusFlushed)
}

// testFlush: after Fail every posted request completes exactly once, in order,
// whether it was signalled or not.
func testFlush(t *testing.T, f Fixture) {
	const n = 16
	a, b := connect(t, f, plan{})
	wrs := a.sends(0, n-1) // they wait: b has no receives
	for i := range wrs {
		wrs[i].Signaled = i%3 == 0
	}
	a.post(append(wrs, a.read(n-1, 0, b.mem, 0, 100))...)
	a.postRecv(a.recvs(100, n)...)
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	for i, c := range await(t, a.sendCQ, n) {
		a.wantStatus(c, uint64(i), rdma.StatusFlushed)
	}
	for i, c := range await(t, a.recvCQ, n) {
		a.wantStatus(c, uint64(100+i), rdma.StatusFlushed)
	}
	if got := append(poll(t, a.sendCQ), poll(t, a.recvCQ)...); len(got) != 0 {
		t.Fatalf("completed twice: %+v", got)
	}
}

// testPostsAfterFail: posts are flushed too, or refused.
func testPostsAfterFail(t *testing.T, f Fixture) {
	a, _ := connect(t, f, plan{})
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	const n = 3
	posted, err := a.qp.PostSend(a.sends(1, n))
	if posted != n && (posted != 0 || err == nil) {
		t.Fatalf("posted %d sends of %d: %v", posted, n, err)
	}
	for i, c := range await(t, a.sendCQ, posted) {
		a.wantStatus(c, uint64(1+i), rdma.StatusFlushed)
	}
	// Of receives, soft-RoCE takes and keeps them: its library tells the kernel
	// nothing. So nobody may wait for the end of one that was posted after Fail.
	posted, err = a.qp.PostRecv(a.recvs(10, n))
	if posted != n && (posted != 0 || err == nil) {
		t.Fatalf("posted %d receives of %d: %v", posted, n, err)
	}
	for i, c := range poll(t, a.recvCQ) {
		a.wantStatus(c, uint64(10+i), rdma.StatusFlushed)
	}
	if err := a.qp.Fail(); err != nil {
		t.Fatalf("Fail of a QP in ERR: %v", err)
	}
}
