//go:build rdma && cgo && linux

package verbs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestWait: an armed queue's entry ends it, so does Wake (also one before it), and
// so does the timeout.
func TestWait(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 4096)
	wait := func(timeout mono.Dur, want bool, what string) time.Duration {
		t.Helper()
		start := time.Now()
		if got := must[bool](t)(p.channel.Wait(timeout)); got != want {
			t.Fatalf("%s: Wait returned %v after %v, want %v", what, got, time.Since(start), want)
		}
		return time.Since(start)
	}
	if d := wait(20*mono.Millisecond, false, "nothing"); d < 20*time.Millisecond {
		t.Errorf("the timeout of 20 ms passed after %v", d)
	}
	p.channel.Wake()
	if d := wait(20*mono.Second, false, "Wake before Wait"); d > 10*time.Second {
		t.Errorf("woken after %v", d)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		p.channel.Wake()
	}()
	if d := wait(20*mono.Second, false, "Wake during Wait"); d > 10*time.Second {
		t.Errorf("woken after %v", d)
	}
	wait(10*mono.Millisecond, false, "one Wake ends one Wait")

	for i := range 3 {
		ok(t, p.cq[0].Arm())
		p.send(t, 0, rdma.SendWR{ID: uint64(i), Op: rdma.OpWrite, Remote: mem.at(64), RKey: mem.region.RKey(), SGEs: [2]rdma.SGE{mem.sge(0, 8)}, NumSGE: 1, Signaled: true})
		wait(20*mono.Second, true, "a completion")
		p.one(t, 0, rdma.Completion{ID: uint64(i), Kind: rdma.DidWrite})
	}
	wait(10*mono.Millisecond, false, "nothing is left")
}

// TestCloseEndsWait: Close of the channel does not wait for the timeout.
func TestCloseEndsWait(t *testing.T) {
	d, _ := need(t)
	ch := must[rdma.Channel](t)(d.NewChannel())
	ended := make(chan error)
	go func() {
		_, err := ch.Wait(60 * mono.Second)
		ended <- err
	}()
	time.Sleep(20 * time.Millisecond)
	ok(t, ch.Close())
	<-ended
	if _, err := ch.Wait(0); !errors.Is(err, errClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
	ch.Wake() // does nothing
}

// TestCloseOrder: what is in use cannot be closed, and the error says why.
func TestCloseOrder(t *testing.T) {
	p := connect(t)
	allocate(t, p.device, 4096)
	for what, c := range map[string]struct {
		close func() error
		want  string
	}{
		"device":  {p.device.Close, "2 queue pairs, 2 completion queues, 1 channels and 1 regions are still open"},
		"channel": {p.channel.Close, "2 completion queues still use it"},
		"queue":   {p.cq[0].Close, "1 queue pairs still use it"},
	} {
		if err := c.close(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("closing the %s: %v, want %q", what, err, c.want)
		}
	}
	ok(t, p.qp[0].Close())
	ok(t, p.qp[0].Close()) // once more is no error
	if _, err := p.qp[0].PostRecv(make([]rdma.RecvWR, 1)); !errors.Is(err, errClosed) {
		t.Errorf("posting after Close: %v", err)
	}
}

// TestAsync: asking for events never waits, and a QP's failure may bring one.
func TestAsync(t *testing.T) {
	p := connect(t)
	var events [4]rdma.Event
	start := time.Now()
	n, err := p.device.Async(events[:])
	if err != nil || time.Since(start) > 5*time.Second {
		t.Fatalf("%d events, error %v, after %v", n, err, time.Since(start))
	}
	ok(t, p.qp[0].Fail())
	if _, err = p.device.Async(events[:]); err != nil {
		t.Error(err)
	}
}

// TestAttr: the limits and the port are those of something that works.
func TestAttr(t *testing.T) {
	d, port := need(t)
	a := d.Attr()
	t.Logf("%s: %+v; port 1: %+v", d.Name(), a, port)
	if a.QPs < 2 || a.QPDepth < depth || a.CQs < 2 || a.CQDepth < 2*depth || a.SGEs < 2 || a.Ports < 1 || a.ReadsServed < 1 || a.ReadsStarted < 1 || a.RegionMax == 0 || a.Regions < 1 {
		t.Errorf("limits %+v", a)
	}
	if port.MTU.Bytes() < 256 || port.GIDs < 1 || port.MessageMax == 0 {
		t.Errorf("port %+v", port)
	}
	if _, err := d.Port(a.Ports + 1); err == nil {
		t.Error("a port behind the last has attributes")
	}
	if _, err := d.Register(nil, 0); err == nil {
		t.Error("no memory was registered")
	}
	if _, err := New().Open("no-such-device"); err == nil {
		t.Error("a device that is not there was opened")
	}
}

// TestHotPathAllocatesNothing: posting and polling make no garbage.
func TestHotPathAllocatesNothing(t *testing.T) {
	p := connect(t)
	mem := allocate(t, p.device, 4096)
	space := make([]rdma.Completion, 16)
	sends := []rdma.SendWR{{Op: rdma.OpWrite, Remote: mem.at(64), RKey: mem.region.RKey(), SGEs: [2]rdma.SGE{mem.sge(0, 8)}, NumSGE: 1, Signaled: true}}
	recvs := make([]rdma.RecvWR, 1)
	n := testing.AllocsPerRun(50, func() {
		p.qp[0].PostSend(sends)
		p.qp[1].PostRecv(recvs)
		for k := 0; k == 0; {
			k, _ = p.cq[0].Poll(space, 1000)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
