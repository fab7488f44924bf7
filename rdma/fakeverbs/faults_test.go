package fakeverbs_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
)

// never is a delay that no test waits for.
const never = 3600 * mono.Second

func TestFreeze(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: mono.Millisecond})
	a, b := pair(t, f, tuning{})
	b.recv(1, 2)
	f.Freeze()
	a.post(a.send(3), a.send(4))
	nothing(t, a.sendCQ)
	nothing(t, b.recvCQ)
	f.Thaw()
	await(t, a.sendCQ, outcome{3, rdma.StatusOK}, outcome{4, rdma.StatusOK})
	await(t, b.recvCQ, outcome{1, rdma.StatusOK}, outcome{2, rdma.StatusOK})
	// Flushing goes on: that is how who notices a half-open link gets his work back.
	f.Freeze()
	a.post(a.send(5))
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	await(t, a.sendCQ, outcome{5, rdma.StatusFlushed})
}

// TestFreezeStopsRetries: what is being given up is not, while time stands.
func TestFreezeStopsRetries(t *testing.T) {
	const delay = 100 * mono.Millisecond // longer than we take until Freeze
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: delay})
	a, b := pair(t, f, tuning{})
	b.recv(1)
	f.Partition("a", "b")
	a.post(a.send(2))
	f.Freeze()
	time.Sleep(3 * delay.Std() / 2)
	nothing(t, a.sendCQ)
	f.Heal("b", "a")
	f.Thaw()
	await(t, a.sendCQ, outcome{2, rdma.StatusOK})
}

func TestPartition(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: mono.Millisecond})
	a, b := pair(t, f, tuning{})
	c, d := open(t, f.Host("c"), tuning{}), open(t, f.Host("b"), tuning{})
	join(c, d, tuning{})
	f.Partition("a", "b")
	a.recv(9)
	a.post(a.send(1), a.send(2))
	await(t, a.sendCQ, outcome{1, rdma.StatusRetryExceeded}, outcome{2, rdma.StatusFlushed})
	await(t, a.recvCQ, outcome{9, rdma.StatusFlushed})
	b.recv(1)
	nothing(t, b.recvCQ) // b does not know yet
	d.recv(3)
	c.post(c.send(4)) // another host is not touched
	await(t, c.sendCQ, outcome{4, rdma.StatusOK})
}

// TestHeal: a short cut is retried over.
func TestHeal(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: never})
	a, b := pair(t, f, tuning{})
	b.recv(1)
	f.Partition("a", "b")
	a.post(a.send(2))
	nothing(t, a.sendCQ)
	f.Heal("a", "b")
	await(t, a.sendCQ, outcome{2, rdma.StatusOK})
}

func TestDown(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: mono.Millisecond})
	a, b := pair(t, f, tuning{})
	b.nic.Down()
	b.nic.Down()
	if p := must(b.dev.Port(1)); p.State != rdma.PortDown {
		t.Errorf("port %+v", p)
	}
	if p := must(a.dev.Port(1)); p.State != rdma.PortActive {
		t.Errorf("port %+v", p)
	}
	a.post(a.read(1, b)) // both directions end
	b.post(b.read(2, a))
	await(t, a.sendCQ, outcome{1, rdma.StatusRetryExceeded})
	await(t, b.sendCQ, outcome{2, rdma.StatusRetryExceeded})
	b.nic.Up()
	b.nic.Up()
	events(t, b.dev, rdma.Event{Kind: rdma.EventPortDown, Port: 1}, rdma.Event{Kind: rdma.EventPortUp, Port: 1})
	events(t, a.dev)
	if p := must(b.dev.Port(1)); p.State != rdma.PortActive {
		t.Errorf("port %+v", p)
	}
}

func TestKill(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{RetryDelay: mono.Millisecond})
	a, b := pair(t, f, tuning{})
	b.recv(1, 2)
	a.post(a.send(3))
	await(t, a.sendCQ, outcome{3, rdma.StatusOK})
	f.Host("b").Kill()
	a.post(a.read(4, b), a.send(5))
	await(t, a.sendCQ, outcome{4, rdma.StatusRetryExceeded}, outcome{5, rdma.StatusFlushed})
	await(t, b.recvCQ, outcome{1, rdma.StatusOK}) // had come before
	events(t, b.dev, rdma.Event{Kind: rdma.EventDeviceFatal})
	if _, err := b.qp.PostSend([]rdma.SendWR{b.send(6)}); !errors.Is(err, syscall.EIO) {
		t.Errorf("post on a dead device: %v", err)
	}
	if err := b.qp.Fail(); !errors.Is(err, syscall.EIO) {
		t.Errorf("fail on a dead device: %v", err)
	}
	nothing(t, b.recvCQ)
	// The NIC serves who opens it next.
	c, d := open(t, f.Host("a"), tuning{}), open(t, f.Host("b"), tuning{})
	join(c, d, tuning{})
	d.recv(7)
	c.post(c.send(8))
	await(t, c.sendCQ, outcome{8, rdma.StatusOK})
}

func TestFailNext(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{})
	b.recv(1, 2)
	a.nic.FailNext(a.qp.Number()+1, rdma.StatusGeneral) // of another
	a.post(a.send(3))
	await(t, a.sendCQ, outcome{3, rdma.StatusOK})
	a.nic.FailNext(a.qp.Number(), rdma.StatusGeneral)
	a.post(a.send(4), a.send(5))
	await(t, a.sendCQ, outcome{4, rdma.StatusGeneral}, outcome{5, rdma.StatusFlushed})
	await(t, b.recvCQ, outcome{1, rdma.StatusOK})
	nothing(t, b.recvCQ)
}

// TestFailNextReported: what a peer reports has failed the peer.
func TestFailNextReported(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{})
	b.recv(1)
	a.nic.FailNext(0, rdma.StatusRemoteAccess)
	a.post(a.read(2, b))
	await(t, a.sendCQ, outcome{2, rdma.StatusRemoteAccess})
	await(t, b.recvCQ, outcome{1, rdma.StatusFlushed})
	events(t, b.dev, rdma.Event{Kind: rdma.EventQPFatal, QP: b.qp.Number()})
	events(t, a.dev)
}

func TestDelay(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{Delay: never})
	a, b := pair(t, f, tuning{})
	b.recv(1)
	a.post(a.send(2))
	nothing(t, a.sendCQ)
	f.SetDelay(0)
	a.post(a.send(3)) // keeps its place
	nothing(t, a.sendCQ)
	if err := a.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	await(t, a.sendCQ, outcome{2, rdma.StatusFlushed}, outcome{3, rdma.StatusFlushed})
	nothing(t, b.recvCQ)
}

// TestReadUnderWay: a region that is closed while a READ of it is under way
// ends it.
func TestReadUnderWay(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{})
	more := must(b.dev.Register(b.mem, all))
	wr := a.read(1, b)
	wr.RKey = more.RKey()
	f.Freeze()
	a.post(wr)
	if err := more.Close(); err != nil {
		t.Fatal(err)
	}
	f.Thaw()
	await(t, a.sendCQ, outcome{1, rdma.StatusRemoteAccess})
}
