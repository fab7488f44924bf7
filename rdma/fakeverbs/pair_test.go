package fakeverbs_test

import (
	"errors"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const all = rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead

// end is a device with one QP, CQs and memory. The memory is Go's here: so the
// race detector sees who touches it.
type end struct {
	t              *testing.T
	nic            *fakeverbs.NIC
	dev            rdma.Device
	sendCQ, recvCQ rdma.CQ
	qp             rdma.QP
	mem            []byte
	region         rdma.Region
}

// tuning of an end, zero fields: the usual.
type tuning struct {
	cqDepth, depth int
	psn            uint32
	gid            rdma.GID
	access         rdma.Access
	rnrRetry       uint8
	maxReads       uint8
}

// open makes an end in RESET and takes it down when the test ends.
func open(t *testing.T, h *fakeverbs.Host, tune tuning) *end {
	t.Helper()
	e := &end{t: t, nic: h.NIC("fake0"), mem: make([]byte, 4096)}
	e.dev = must(h.Open("fake0"))
	depth := max(tune.cqDepth, 1)
	if tune.cqDepth == 0 {
		depth = 64
	}
	e.sendCQ, e.recvCQ = must(e.dev.NewCQ(depth, nil)), must(e.dev.NewCQ(64, nil))
	e.region = must(e.dev.Register(e.mem, all))
	depth = tune.depth
	if depth == 0 {
		depth = 8
	}
	e.qp = must(e.dev.NewQP(rdma.QPConfig{SendCQ: e.sendCQ, RecvCQ: e.recvCQ, SendDepth: depth, RecvDepth: 8, SGEs: 2}))
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{e.qp, e.region, e.sendCQ, e.recvCQ, e.dev} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return e
}

// join takes both ends to RTS; tune is the first's.
func join(a, b *end, tune tuning) {
	a.t.Helper()
	mine := tuning{psn: 1, gid: must(b.dev.GID(1, 1)), access: all, rnrRetry: 7, maxReads: 1}
	yours := mine
	yours.gid = must(a.dev.GID(1, 1))
	if tune.psn != 0 {
		mine.psn = tune.psn
	}
	if tune.gid != (rdma.GID{}) {
		mine.gid = tune.gid
	}
	if tune.access != 0 {
		mine.access = tune.access
	}
	if tune.rnrRetry != 0 {
		mine.rnrRetry = tune.rnrRetry
	}
	for _, err := range []error{a.ready(b, mine), b.ready(a, yours)} {
		if err != nil {
			a.t.Fatal(err)
		}
	}
}

func (e *end) ready(peer *end, tune tuning) error {
	return errors.Join(e.qp.Init(1, tune.access),
		e.qp.ReadyToReceive(rdma.Peering{QPN: peer.qp.Number(), PSN: 1, GID: tune.gid, MTU: rdma.MTU1024, Port: 1, GIDIndex: 1, MaxReads: 1}),
		e.qp.ReadyToSend(rdma.Sending{PSN: tune.psn, Retry: 7, RNRRetry: tune.rnrRetry, MaxReads: tune.maxReads}))
}

// pair joins two hosts, "a" and "b".
func pair(t *testing.T, f *fakeverbs.Fabric, tune tuning) (a, b *end) {
	t.Helper()
	a, b = open(t, f.Host("a"), tune), open(t, f.Host("b"), tuning{})
	join(a, b, tune)
	return a, b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (e *end) sge(n int) rdma.SGE {
	return rdma.SGE{Addr: uint64(uintptr(unsafe.Pointer(&e.mem[0]))), Length: uint32(n), LKey: e.region.LKey()}
}

// send is a signalled SEND of 8 bytes.
func (e *end) send(id uint64) rdma.SendWR {
	return rdma.SendWR{ID: id, Op: rdma.OpSend, SGEs: [2]rdma.SGE{e.sge(8)}, NumSGE: 1, Signaled: true}
}

// read is a signalled READ of the peer's first 8 bytes.
func (e *end) read(id uint64, peer *end) rdma.SendWR {
	wr := e.send(id)
	wr.Op, wr.Remote, wr.RKey = rdma.OpRead, peer.sge(8).Addr, peer.region.RKey()
	return wr
}

func (e *end) post(wrs ...rdma.SendWR) {
	e.t.Helper()
	if n, err := e.qp.PostSend(wrs); err != nil || n != len(wrs) {
		e.t.Fatalf("posted %d of %d: %v", n, len(wrs), err)
	}
}

func (e *end) recv(ids ...uint64) {
	e.t.Helper()
	for _, id := range ids {
		if _, err := e.qp.PostRecv([]rdma.RecvWR{{ID: id, SGE: e.sge(64)}}); err != nil {
			e.t.Fatal(err)
		}
	}
}

// outcome is a completion as far as it is always defined.
type outcome struct {
	id     uint64
	status rdma.Status
}

// await wants just these completions next.
func await(t *testing.T, cq rdma.CQ, want ...outcome) {
	t.Helper()
	for i, w := range want {
		var c [1]rdma.Completion
		for begin := time.Now(); must(cq.Poll(c[:], 10)) == 0; {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("no completion %d, %+v", i, w)
			}
		}
		if got := (outcome{c[0].ID, c[0].Status}); got != w {
			t.Fatalf("completion %d: %+v, want %+v", i, got, w)
		}
	}
}

// nothing wants no completion for a while.
func nothing(t *testing.T, cq rdma.CQ) {
	t.Helper()
	var c [1]rdma.Completion
	for range 5 {
		if must(cq.Poll(c[:], 1)) != 0 {
			t.Fatalf("completed: %+v", c[0])
		}
		time.Sleep(time.Millisecond)
	}
}

// events takes the asynchronous events.
func events(t *testing.T, d rdma.Device, want ...rdma.Event) {
	t.Helper()
	var got [8]rdma.Event
	n := must(d.Async(got[:]))
	if n != len(want) {
		t.Fatalf("events %+v, want %+v", got[:n], want)
	}
	for i, w := range want {
		if got[i] != w {
			t.Fatalf("events %+v, want %+v", got[:n], want)
		}
	}
}
