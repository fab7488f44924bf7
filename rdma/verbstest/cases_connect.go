package verbstest

import (
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

func testAttr(t *testing.T, f Fixture) {
	for _, s := range []Side{f.A, f.B} {
		names, err := s.Verbs.Devices()
		if err != nil || !slices.Contains(names, s.Device) {
			t.Fatalf("devices %q, %v: want %q among them", names, err, s.Device)
		}
		h := openHost(t, s)
		if h.dev.Name() != s.Device {
			t.Errorf("device %q says it is %q", s.Device, h.dev.Name())
		}
		a := h.dev.Attr()
		if min(a.QPs, a.QPDepth, a.CQs, a.CQDepth, a.Regions, a.SGEs, a.ReadsServed, a.ReadsStarted, a.Ports) < 1 || a.RegionMax < memoryBytes {
			t.Errorf("limits %+v", a)
		}
		if h.port.State != rdma.PortActive || h.port.MTU < rdma.MTU256 || h.port.MTU > rdma.MTU4096 || h.port.MessageMax < memoryBytes || h.port.GIDs < 1 {
			t.Errorf("port %+v", h.port)
		}
		if h.port.Ethernet == (h.gid == rdma.GID{}) {
			t.Errorf("Ethernet %v with GID %x", h.port.Ethernet, h.gid)
		}
		if _, err := h.dev.Port(99); err == nil {
			t.Error("port 99 has a state")
		}
		if _, err := h.dev.GID(s.Port, 1<<20); err == nil {
			t.Error("there is a GID 1048576")
		}
		var events [4]rdma.Event
		if _, err := h.dev.Async(events[:]); err != nil {
			t.Errorf("asynchronous events: %v", err)
		}
	}
}

func testUnknownDevice(t *testing.T, f Fixture) {
	if d, err := f.A.Verbs.Open("no such device"); err == nil {
		d.Close()
		t.Fatal("opened a device that is not there")
	}
}

// testConnect goes through the states, and tries to leave some out.
func testConnect(t *testing.T, f Fixture) {
	a, b := newEnd(openHost(t, f.A), plan{}), newEnd(openHost(t, f.B), plan{})
	if err := a.qp.ReadyToReceive(peering(a, b, psnB)); err == nil {
		t.Fatal("from RESET to RTR")
	}
	if err := b.qp.Init(b.side.Port, all); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.ReadyToSend(sending(b, psnB, plan{})); err == nil {
		t.Fatal("from INIT to RTS")
	}
	b.postRecv(rdma.RecvWR{ID: 1, SGE: b.mem.piece(0, 64)}) // INIT is enough
	for _, err := range []error{
		a.qp.Init(a.side.Port, all),
		a.qp.ReadyToReceive(peering(a, b, psnB)), b.qp.ReadyToReceive(peering(b, a, psnA)),
		a.qp.ReadyToSend(sending(a, psnA, plan{})), // b stays in RTR: that is enough to receive
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a.post(a.send(2, 0, 64))
	a.sent(2, rdma.DidSend)
	b.received(1, 64)
	if err := b.qp.ReadyToSend(sending(b, psnB, plan{})); err != nil {
		t.Fatal(err)
	}
	a.postRecv(rdma.RecvWR{ID: 3, SGE: a.mem.piece(0, 64)})
	b.post(b.send(4, 0, 64))
	b.sent(4, rdma.DidSend)
	a.received(3, 64)
}

// testCloseOrder: a device with children is not closed, and then it is.
func testCloseOrder(t *testing.T, f Fixture) {
	dev, err := f.A.Verbs.Open(f.A.Device)
	if err != nil {
		t.Fatal(err)
	}
	var open []func() error
	add := func(close func() error, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, close)
		if dev.Close() == nil {
			t.Fatalf("the device closed with child %d open", len(open))
		}
	}
	r, err := dev.Register(mapped(t, 4096), rdma.LocalWrite)
	add(func() error { return r.Close() }, err)
	ch, err := dev.NewChannel()
	add(func() error { return ch.Close() }, err)
	cq, err := dev.NewCQ(4, ch)
	add(func() error { return cq.Close() }, err)
	qp, err := dev.NewQP(rdma.QPConfig{SendCQ: cq, RecvCQ: cq, SendDepth: 2, RecvDepth: 2, SGEs: 1})
	add(func() error { return qp.Close() }, err)
	for len(open) > 0 {
		last := len(open) - 1
		if err := open[last](); err != nil {
			t.Fatalf("close child %d: %v", last, err)
		}
		open = open[:last]
		if len(open) > 0 && dev.Close() == nil {
			t.Fatalf("the device closed with %d children open", len(open))
		}
	}
	if err := dev.Close(); err != nil {
		t.Fatalf("close the bare device: %v", err)
	}
	openHost(t, f.A) // and once more
}
