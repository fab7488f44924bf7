package verbstest

import (
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// plan says how a pair differs from the usual.
type plan struct {
	depth    int   // of all queues; 0: 64
	rnrRetry uint8 // 0: 7, for ever
	retry    uint8 // 0: 7
	timeout  uint8 // 0: 14, 67 ms
}

const all = rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead

// end is a host's QP with CQs of its own and memory with all rights.
type end struct {
	*host
	qp             rdma.QP
	ch             rdma.Channel
	sendCQ, recvCQ rdma.CQ
	mem            *memory
}

// memoryBytes of an end: more than the largest message.
const memoryBytes = 256 << 10

// connect opens both sides and joins two ends.
func connect(t *testing.T, f Fixture, p plan) (a, b *end) {
	t.Helper()
	a, b = newEnd(openHost(t, f.A), p), newEnd(openHost(t, f.B), p)
	join(a, b, p)
	return a, b
}

// newEnd makes an end whose QP is in RESET.
func newEnd(h *host, p plan) *end {
	h.t.Helper()
	e := &end{host: h, ch: h.channel()}
	// A CQ with room for all, also where the device makes its queues deeper than
	// asked and a case fills them.
	depth := min(256*p.queueDepth(), h.dev.Attr().CQDepth)
	e.sendCQ, e.recvCQ = h.cq(depth, e.ch), h.cq(depth, e.ch)
	e.mem = h.memory(memoryBytes, all)
	e.newQP(p)
	return e
}

func (p plan) queueDepth() int {
	if p.depth == 0 {
		return 64
	}
	return p.depth
}

// newQP makes the end's QP, or a further end's with the same CQs.
func (e *end) newQP(p plan) {
	e.t.Helper()
	var err error
	e.qp, err = e.dev.NewQP(rdma.QPConfig{SendCQ: e.sendCQ, RecvCQ: e.recvCQ,
		SendDepth: p.queueDepth(), RecvDepth: p.queueDepth(), SGEs: 2})
	if err != nil {
		e.t.Fatal(err)
	}
	e.closing("QP", func() error {
		if e.qp == nil { // the test has closed it
			return nil
		}
		return e.qp.Close()
	})
}

// first PSNs; one goes over the end of its 24 bits soon.
const (
	psnA = 0x123456
	psnB = 0xfffff0
)

// join takes both QPs to RTS.
func join(a, b *end, p plan) {
	a.t.Helper()
	for _, err := range []error{
		a.qp.Init(a.side.Port, all), b.qp.Init(b.side.Port, all),
		a.qp.ReadyToReceive(peering(a, b, psnB)), b.qp.ReadyToReceive(peering(b, a, psnA)),
		a.qp.ReadyToSend(sending(a, psnA, p)), b.qp.ReadyToSend(sending(b, psnB, p)),
	} {
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

// peering is what a needs to know of b.
func peering(a, b *end, psn uint32) rdma.Peering {
	const pause = 12 // 640 us
	return rdma.Peering{QPN: b.qp.Number(), PSN: psn, GID: b.gid, LID: b.port.LID,
		MTU: min(a.port.MTU, b.port.MTU), Port: a.side.Port, GIDIndex: a.side.GIDIndex,
		MaxReads: uint8(min(4, a.dev.Attr().ReadsServed)), MinRNR: pause}
}

func sending(a *end, psn uint32, p plan) rdma.Sending {
	s := rdma.Sending{PSN: psn, Timeout: 14, Retry: 7, RNRRetry: 7, MaxReads: uint8(min(4, a.dev.Attr().ReadsStarted))}
	if p.timeout != 0 {
		s.Timeout = p.timeout
	}
	if p.retry != 0 {
		s.Retry = p.retry
	}
	if p.rnrRetry != 0 {
		s.RNRRetry = p.rnrRetry
	}
	return s
}

// post posts sends, all of them.
func (e *end) post(wrs ...rdma.SendWR) {
	e.t.Helper()
	if n, err := e.qp.PostSend(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("posted %d sends of %d: %v", n, len(wrs), err)
	}
}

// postRecv posts receives, all of them.
func (e *end) postRecv(wrs ...rdma.RecvWR) {
	e.t.Helper()
	if n, err := e.qp.PostRecv(wrs); n != len(wrs) || err != nil {
		e.t.Fatalf("posted %d receives of %d: %v", n, len(wrs), err)
	}
}

// poll takes what there is.
func poll(t *testing.T, cq rdma.CQ) []rdma.Completion {
	t.Helper()
	var dst [8]rdma.Completion
	n, err := cq.Poll(dst[:], 16)
	if err != nil || n < 0 || n > len(dst) {
		t.Fatalf("polled %d: %v", n, err)
	}
	return dst[:n]
}

// await polls until n completions have come, and takes no more.
func await(t *testing.T, cq rdma.CQ, n int) []rdma.Completion {
	t.Helper()
	got := make([]rdma.Completion, 0, n)
	for begin := mono.Now(); len(got) < n; {
		some, err := cq.Poll(got[len(got):n], 16)
		if err != nil || some < 0 || some > n-len(got) {
			t.Fatalf("polled %d: %v", some, err)
		}
		got = got[:len(got)+some]
		if mono.Now().Sub(begin) > patience {
			t.Fatalf("waited %v for %d completions, have %+v", patience, n, got)
		}
	}
	return got
}

// want is a completion of the given ID, status and kind.
func (e *end) want(c rdma.Completion, id uint64, kind rdma.CompletionKind) {
	e.t.Helper()
	if c.Status != rdma.StatusOK {
		e.t.Fatalf("request %d ended with %v (vendor's code %#x), want request %d to succeed", c.ID, c.Status, c.Vendor, id)
	}
	if c.ID != id || c.Kind != kind || c.QP != e.qp.Number() {
		e.t.Fatalf("%+v, want ID %d, kind %d, QP %#x", c, id, kind, e.qp.Number())
	}
}

// wantStatus is a completion in error: of such nothing else is defined.
func (e *end) wantStatus(c rdma.Completion, id uint64, any ...rdma.Status) {
	e.t.Helper()
	for _, s := range any {
		if c.ID == id && c.Status == s && c.QP == e.qp.Number() {
			return
		}
	}
	e.t.Fatalf("request %d of QP %#x ended with %v (vendor's code %#x), want request %d of QP %#x with %v",
		c.ID, c.QP, c.Status, c.Vendor, id, e.qp.Number(), any)
}

// sent waits for one success of the given kind.
func (e *end) sent(id uint64, kind rdma.CompletionKind) {
	e.t.Helper()
	e.want(await(e.t, e.sendCQ, 1)[0], id, kind)
}

// received waits for one receive and its length.
func (e *end) received(id uint64, n int) {
	e.t.Helper()
	c := await(e.t, e.recvCQ, 1)[0]
	e.want(c, id, rdma.DidRecv)
	if int(c.Bytes) != n {
		e.t.Fatalf("receive %d has %d bytes, want %d", id, c.Bytes, n)
	}
}
