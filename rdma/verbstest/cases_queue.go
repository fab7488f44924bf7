package verbstest

import (
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// testSelectiveSignalling: of many sends only the signalled make entries.
func testSelectiveSignalling(t *testing.T, f Fixture) {
	const n = 16
	a, b := connect(t, f, plan{depth: n})
	for round := range uint64(5) { // more than the queue holds: the one entry frees all
		b.postRecv(b.recvs(0, n)...)
		wrs := a.sends(round*100, n)
		for i := range wrs[:n-1] {
			wrs[i].Signaled = false
		}
		a.post(wrs...)
		a.sent(round*100+n-1, rdma.DidSend)
		await(t, b.recvCQ, n)
	}
	if got := poll(t, a.sendCQ); len(got) != 0 {
		t.Fatalf("entries that nobody asked for: %+v", got)
	}
}

// testQueuesGoRound: what was polled makes room; so does what was quiet before it.
func testQueuesGoRound(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{depth: 2})
	for i := range uint64(200) {
		b.postRecv(b.recvs(2*i, 2)...)
		wrs := a.sends(2*i, 2)
		wrs[0].Signaled = i%2 == 0
		a.post(wrs...)
		if wrs[0].Signaled {
			a.sent(2*i, rdma.DidSend)
		}
		a.sent(2*i+1, rdma.DidSend)
		for j, c := range await(t, b.recvCQ, 2) {
			b.want(c, 2*i+uint64(j), rdma.DidRecv)
		}
	}
}

// testSharedCQ: QPs that share CQs are told apart by their numbers.
func testSharedCQ(t *testing.T, f Fixture) {
	a, b := connect(t, f, plan{})
	a2, b2 := *a, *b
	a2.newQP(plan{})
	b2.newQP(plan{})
	join(&a2, &b2, plan{})
	if a.qp.Number() == a2.qp.Number() {
		t.Fatal("two QPs of one number")
	}
	b.postRecv(b.recvs(10, 1)...)
	b2.postRecv(b2.recvs(20, 1)...)
	a.post(a.send(1, 0, 16))
	a2.post(a2.send(2, 0, 16))
	for _, c := range await(t, a.sendCQ, 2) {
		if c.ID == 1 {
			a.want(c, 1, rdma.DidSend)
		} else {
			a2.want(c, 2, rdma.DidSend)
		}
	}
	for _, c := range await(t, b.recvCQ, 2) {
		if c.ID == 10 {
			b.want(c, 10, rdma.DidRecv)
		} else {
			b2.want(c, 20, rdma.DidRecv)
		}
	}
}

// overfull is how many times a queue's depth we try to post. Devices round
// depths up, to powers of two and to whole pages.
const overfull = 64

// testRecvQueueFull: a queue takes at least its depth, then says no, and what it
// took is there.
func testRecvQueueFull(t *testing.T, f Fixture) {
	const depth = 16
	a, _ := connect(t, f, plan{depth: depth})
	n, err := a.qp.PostRecv(a.recvs(0, overfull*depth))
	checkFull(t, n, depth, err)
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	for i, c := range await(t, a.recvCQ, n) {
		a.wantStatus(c, uint64(i), rdma.StatusFlushed)
	}
}

// testSendQueueFull: the same with sends that wait for a receive.
func testSendQueueFull(t *testing.T, f Fixture) {
	const depth = 16
	a, _ := connect(t, f, plan{depth: depth})
	n, err := a.qp.PostSend(a.sends(0, overfull*depth))
	checkFull(t, n, depth, err)
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	for i, c := range await(t, a.sendCQ, n) {
		a.wantStatus(c, uint64(i), rdma.StatusFlushed)
	}
}

func checkFull(t *testing.T, n, depth int, err error) {
	t.Helper()
	if err == nil || n < depth || n >= overfull*depth {
		t.Fatalf("posted %d of %d to a queue of depth %d: %v", n, overfull*depth, depth, err)
	}
}
