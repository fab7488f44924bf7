package rdmalink_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
)

// TestDeviceConformance is the suite on a device of the kernel, as TestConformance
// is on one in software.
func TestDeviceConformance(t *testing.T) {
	needDevice(t)
	var sum rdmalink.Stats
	cases := 0
	transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
		cases++
		d := &door{Verbs: verbs.New()}
		n := d.network(t)
		t.Cleanup(func() { add(&sum, n.Stats()) })
		f := fixture(n, func(t *testing.T, address string) transporttest.Cable {
			return doorCable{transporttest.NewProxy(t, address), d}
		})
		// Not "delay bound follows": it asserts how fast the undisturbed way is, and an
		// emulated guest is not when its host has other things to do.
		f.Delay = nil
		return f
	})
	if cases < 30 {
		return // -run chose some
	}
	if sum.LanesUp < 30 || sum.ReadsRDMA < 1000 || sum.Sends < 1000 || sum.Writes < 50 || sum.LinksRDMA != 0 || sum.LinksTCP != 0 {
		t.Errorf("over the whole suite: %+v", sum)
	}
	t.Logf("over the whole suite: %+v", sum)
}

// needDevice skips the test where there is no device, and fails it where one was
// promised (make test-rdma promises).
func needDevice(t *testing.T) {
	t.Helper()
	nic, err := openDevice(verbs.New())
	switch {
	case err == nil:
		if err := nic.Close(); err != nil {
			t.Fatal(err)
		}
	case os.Getenv("SYMPHONY_REQUIRE_RDMA") != "":
		t.Fatalf("no RDMA device, though SYMPHONY_REQUIRE_RDMA is set: %v", err)
	default:
		t.Skipf("no RDMA device: %v", err)
	}
}

func openDevice(v rdma.Verbs) (*rdma.NIC, error) { return discover.Open(v, rdma.Config{GIDIndex: -1}) }

// door is the way to the devices, which can be shut: what is posted from then on
// goes nowhere, and no completion comes.
type door struct {
	rdma.Verbs
	shut atomic.Bool
}

// network is a Network on the device behind the door; all is closed, and all must
// be given back, at the test's end.
func (d *door) network(t *testing.T) *rdmalink.Network {
	t.Helper()
	nic, err := openDevice(d)
	if err != nil {
		t.Fatal(err)
	}
	n := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})
	t.Cleanup(func() {
		if err := errors.Join(n.Close(), nic.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Open implements rdma.Verbs.
func (d *door) Open(name string) (rdma.Device, error) {
	device, err := d.Verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return doorDevice{device, d}, nil
}

type doorDevice struct {
	rdma.Device
	door *door
}

// NewCQ implements rdma.Device.
func (d doorDevice) NewCQ(depth int, ch rdma.Channel) (rdma.CQ, error) {
	cq, err := d.Device.NewCQ(depth, ch)
	if err != nil {
		return nil, err
	}
	return doorCQ{cq, d.door}, nil
}

// NewQP implements rdma.Device.
func (d doorDevice) NewQP(c rdma.QPConfig) (rdma.QP, error) {
	c.SendCQ, c.RecvCQ = c.SendCQ.(doorCQ).CQ, c.RecvCQ.(doorCQ).CQ
	qp, err := d.Device.NewQP(c)
	if err != nil {
		return nil, err
	}
	return doorQP{qp, d.door}, nil
}

type doorCQ struct {
	rdma.CQ
	door *door
}

// Poll implements rdma.CQ.
func (c doorCQ) Poll(dst []rdma.Completion, turns int) (int, error) {
	if c.door.shut.Load() {
		return 0, nil
	}
	return c.CQ.Poll(dst, turns)
}

type doorQP struct {
	rdma.QP
	door *door
}

// PostSend implements rdma.QP.
func (q doorQP) PostSend(wrs []rdma.SendWR) (int, error) {
	if q.door.shut.Load() {
		return len(wrs), nil
	}
	return q.QP.PostSend(wrs)
}

// PostRecv implements rdma.QP.
func (q doorQP) PostRecv(wrs []rdma.RecvWR) (int, error) {
	if q.door.shut.Load() {
		return len(wrs), nil
	}
	return q.QP.PostRecv(wrs)
}

// doorCable is TCP's proxy, and the door that shuts with it.
type doorCable struct {
	*transporttest.Proxy
	door *door
}

// Freeze implements transporttest.Cable.
func (c doorCable) Freeze() {
	c.door.shut.Store(true)
	c.Proxy.Freeze()
}
