package fakeverbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestOverrun: a full CQ loses entries, says so, and fails its QPs; what of
// them completes elsewhere does.
func TestOverrun(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{cqDepth: 2})
	b.recv(1, 2, 3)
	a.recv(9)
	a.post(a.send(4), a.send(5), a.send(6))
	await(t, a.sendCQ, outcome{4, rdma.StatusOK}, outcome{5, rdma.StatusOK})
	nothing(t, a.sendCQ)
	await(t, a.recvCQ, outcome{9, rdma.StatusFlushed})
	events(t, a.dev, rdma.Event{Kind: rdma.EventCQError})
}

// TestQuietSlots: an unsignalled send holds its slot until a later one's entry
// was polled.
func TestQuietSlots(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{depth: 3})
	b.recv(1, 2, 3, 4)
	quiet := a.send(5)
	quiet.Signaled = false
	a.post(quiet, quiet, a.send(6))
	n, err := a.qp.PostSend([]rdma.SendWR{a.send(7)})
	if n != 0 || !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("posted %d: %v", n, err)
	}
	await(t, a.sendCQ, outcome{6, rdma.StatusOK})
	a.post(a.send(8), quiet, quiet)
}

// TestQuietForEver: nothing frees the slots of who never signals.
func TestQuietForEver(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a, b := pair(t, f, tuning{depth: 2})
	b.recv(1, 2, 3)
	quiet := a.send(4)
	quiet.Signaled = false
	n, err := a.qp.PostSend([]rdma.SendWR{quiet, quiet, quiet})
	if n != 2 || !errors.Is(err, syscall.ENOMEM) {
		t.Fatalf("posted %d: %v", n, err)
	}
}

// TestHandshakeMistakes: whoever mixes up what the ends tell each other reaches
// nobody, as with real packets.
func TestHandshakeMistakes(t *testing.T) {
	cases := []struct {
		name string
		tune tuning
	}{
		{"PSN", tuning{psn: 2}},
		{"GID", tuning{gid: rdma.GID{15: 77}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			a, b := pair(t, fakeverbs.New(fakeverbs.Config{RetryDelay: mono.Millisecond}), c.tune)
			b.recv(1)
			a.post(a.send(2))
			await(t, a.sendCQ, outcome{2, rdma.StatusRetryExceeded})
		})
	}
}

// TestQPWithoutRight: a QP that serves no READs says so to the reader.
func TestQPWithoutRight(t *testing.T) {
	a, b := pair(t, fakeverbs.New(fakeverbs.Config{}), tuning{access: rdma.RemoteWrite})
	b.post(b.read(1, a))
	await(t, b.sendCQ, outcome{1, rdma.StatusRemoteInvalid})
	events(t, a.dev, rdma.Event{Kind: rdma.EventQPFatal, QP: a.qp.Number()})
}

// TestReceiveWithoutMemory: a receive whose memory is not there fails both.
func TestReceiveWithoutMemory(t *testing.T) {
	a, b := pair(t, fakeverbs.New(fakeverbs.Config{}), tuning{})
	sge := b.sge(64)
	sge.LKey = b.region.RKey() // the wrong one of both
	must(b.qp.PostRecv([]rdma.RecvWR{{ID: 1, SGE: sge}}))
	a.post(a.send(2))
	await(t, a.sendCQ, outcome{2, rdma.StatusRemoteOperation})
	await(t, b.recvCQ, outcome{1, rdma.StatusLocalProtection})
}

// TestJoinedToItself: a QP that fails its peer and thereby itself.
func TestJoinedToItself(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a := open(t, f.Host("a"), tuning{})
	if err := a.ready(a, tuning{psn: 1, gid: must(a.dev.GID(1, 1)), access: all, maxReads: 1}); err != nil {
		t.Fatal(err)
	}
	a.recv(1)
	a.post(a.send(2))
	await(t, a.sendCQ, outcome{2, rdma.StatusOK})
	await(t, a.recvCQ, outcome{1, rdma.StatusOK})
	wr := a.read(3, a)
	wr.RKey = 0
	a.post(wr, a.send(4))
	await(t, a.sendCQ, outcome{3, rdma.StatusFlushed}, outcome{4, rdma.StatusFlushed})
}

// TestStates: each step is refused from the wrong state, in words.
func TestStates(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a := open(t, f.Host("a"), tuning{})
	if _, err := a.qp.PostRecv([]rdma.RecvWR{{}}); err == nil || !strings.Contains(err.Error(), "RESET") {
		t.Errorf("receive in RESET: %v", err)
	}
	if err := a.qp.Init(2, all); err == nil {
		t.Error("Init on a port that is not there")
	}
	if err := a.qp.Init(1, all); err != nil {
		t.Fatal(err)
	}
	if err := a.qp.Init(1, all); err == nil || !strings.Contains(err.Error(), "it is in INIT, not in RESET") {
		t.Errorf("Init in INIT: %v", err)
	}
	if _, err := a.qp.PostSend([]rdma.SendWR{a.send(1)}); err == nil {
		t.Error("send in INIT")
	}
	if err := a.qp.ReadyToReceive(rdma.Peering{MTU: rdma.MTU1024, Port: 1, MaxReads: 200, GID: rdma.GID{1}}); err == nil {
		t.Error("200 READs served")
	}
}

// TestClosed: what is closed stays so, and what is in use is not closed.
func TestClosed(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{Attr: rdma.DeviceAttr{CQs: 1}})
	d := must(f.Host("a").Open("fake0"))
	ch := must(d.NewChannel())
	cq := must(d.NewCQ(4, ch))
	if _, err := d.NewCQ(4, ch); !errors.Is(err, syscall.ENOMEM) {
		t.Errorf("a CQ beyond the limit: %v", err)
	}
	if want := (fakeverbs.Counts{Devices: 1, Channels: 1, CQs: 1}); f.Open() != want {
		t.Errorf("open: %+v, want %+v", f.Open(), want)
	}
	if err := ch.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("close a channel in use: %v", err)
	}
	for _, c := range []interface{ Close() error }{cq, ch, d} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err == nil {
			t.Errorf("%T closed twice", c)
		}
	}
	if _, err := cq.Poll(make([]rdma.Completion, 1), 1); err == nil {
		t.Error("polled a closed CQ")
	}
	if _, err := ch.Wait(mono.Second); err == nil {
		t.Error("waited on a closed channel")
	}
	if f.Open() != (fakeverbs.Counts{}) {
		t.Errorf("still open: %+v", f.Open())
	}
}

// TestKeys: no key comes again soon, whatever comes and goes.
func TestKeys(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{})
	a := open(t, f.Host("a"), tuning{})
	seen := map[uint32]bool{}
	for range 10000 {
		r := must(a.dev.Register(a.mem, all))
		if seen[r.LKey()] || seen[r.RKey()] || r.LKey() == r.RKey() {
			t.Fatalf("keys %#x, %#x again after %d", r.LKey(), r.RKey(), len(seen)/2)
		}
		seen[r.LKey()], seen[r.RKey()] = true, true
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStaleKeyOfUsedSlot: a key stays stale when others have come since.
func TestStaleKeyOfUsedSlot(t *testing.T) {
	a, b := pair(t, fakeverbs.New(fakeverbs.Config{}), tuning{})
	stale := must(b.dev.Register(b.mem, all))
	wr := a.read(1, b)
	wr.RKey = stale.RKey()
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		r := must(b.dev.Register(b.mem, all))
		t.Cleanup(func() { r.Close() })
		if err := must(b.dev.Register(b.mem, all)).Close(); err != nil {
			t.Fatal(err)
		}
	}
	a.post(wr)
	await(t, a.sendCQ, outcome{1, rdma.StatusRemoteAccess})
}

// TestNoDevices: a host without NICs is not an error.
func TestNoDevices(t *testing.T) {
	f := fakeverbs.New(fakeverbs.Config{Devices: []string{}})
	if names, err := f.Host("a").Devices(); len(names) != 0 || err != nil {
		t.Fatalf("%q, %v", names, err)
	}
}
