//go:build rdma && cgo && linux

package verbs

import (
	"os"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/rdma"
)

// need opens the first device with an active port. Without one the test is skipped,
// and fails where a device was promised (make test-rdma promises).
func need(t testing.TB) (rdma.Device, rdma.PortAttr) {
	t.Helper()
	v := New()
	names, err := v.Devices()
	for _, name := range names {
		var d rdma.Device
		if d, err = v.Open(name); err != nil {
			continue
		}
		var port rdma.PortAttr
		if port, err = d.Port(1); err == nil && port.State == rdma.PortActive {
			t.Cleanup(func() { closed(t, "device", d.Close) })
			return d, port
		}
		d.Close()
	}
	if os.Getenv("SYMPHONY_REQUIRE_RDMA") != "" {
		t.Fatalf("no active RDMA device, though SYMPHONY_REQUIRE_RDMA is set: devices %v, error %v", names, err)
	}
	t.Skipf("no active RDMA device: devices %v, error %v", names, err)
	return nil, rdma.PortAttr{}
}

func closed(t testing.TB, what string, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Errorf("closing the %s: %v", what, err)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// memory is registered memory outside the Go heap.
type memory struct {
	bytes  []byte
	region rdma.Region
}

func (m memory) at(offset int) uint64 {
	return uint64(uintptr(unsafe.Pointer(&m.bytes[offset])))
}

func (m memory) sge(offset, length int) rdma.SGE {
	return rdma.SGE{Addr: m.at(offset), Length: uint32(length), LKey: m.region.LKey()}
}

func allocate(t testing.TB, d rdma.Device, size int) memory {
	t.Helper()
	bytes := must[[]byte](t)(unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))
	region := must[rdma.Region](t)(d.Register(bytes, rdma.LocalWrite|rdma.RemoteWrite|rdma.RemoteRead))
	t.Cleanup(func() {
		closed(t, "region", region.Close)
		unix.Munmap(bytes)
	})
	return memory{bytes, region}
}

// address is the last of the port's: RoCE v2 comes behind v1, and IPv4 behind
// link-local. (rdma/discover knows better, and this package is not to import it.)
func address(t testing.TB, d rdma.Device, port rdma.PortAttr) (rdma.GID, int) {
	t.Helper()
	gid, index := must[rdma.GID](t)(d.GID(1, 0)), 0
	for i := range port.GIDs {
		if g, err := d.GID(1, i); err == nil && g != (rdma.GID{}) {
			gid, index = g, i
		}
	}
	return gid, index
}

// pair is two connected QPs of one device, each with a queue of its own.
type pair struct {
	device  rdma.Device
	channel rdma.Channel
	cq      [2]rdma.CQ
	qp      [2]rdma.QP
}

const depth = 128

func connect(t testing.TB) *pair {
	t.Helper()
	d, port := need(t)
	gid, index := address(t, d, port)
	p := &pair{device: d, channel: must[rdma.Channel](t)(d.NewChannel())}
	t.Cleanup(func() { closed(t, "channel", p.channel.Close) })
	for i := range p.qp {
		p.cq[i] = must[rdma.CQ](t)(d.NewCQ(2*depth, p.channel))
		t.Cleanup(func() { closed(t, "completion queue", p.cq[i].Close) })
	}
	for i := range p.qp {
		p.qp[i] = must[rdma.QP](t)(d.NewQP(rdma.QPConfig{SendCQ: p.cq[i], RecvCQ: p.cq[i], SendDepth: depth, RecvDepth: depth, SGEs: 2}))
		t.Cleanup(func() { closed(t, "queue pair", p.qp[i].Close) })
		ok(t, p.qp[i].Init(1, rdma.LocalWrite|rdma.RemoteWrite|rdma.RemoteRead))
	}
	for i, q := range p.qp {
		ok(t, q.ReadyToReceive(rdma.Peering{QPN: p.qp[1-i].Number(), PSN: uint32(100 * (1 - i)), GID: gid, LID: port.LID, MTU: rdma.MTU1024, Port: 1, GIDIndex: index, MaxReads: 4, MinRNR: 1}))
	}
	for i, q := range p.qp {
		ok(t, q.ReadyToSend(rdma.Sending{PSN: uint32(100 * i), Timeout: 14, Retry: 7, RNRRetry: 7, MaxReads: 4}))
	}
	return p
}

// completions polls until n have come.
func (p *pair) completions(t testing.TB, side, n int) []rdma.Completion {
	t.Helper()
	var got []rdma.Completion
	space := make([]rdma.Completion, 16)
	for end := time.Now().Add(20 * time.Second); len(got) < n; {
		k := must[int](t)(p.cq[side].Poll(space, 100))
		got = append(got, space[:k]...)
		if time.Now().After(end) {
			t.Fatalf("%d completions, want %d: %+v", len(got), n, got)
		}
	}
	return got
}

// one polls for a completion that must be alone and of this kind.
func (p *pair) one(t testing.TB, side int, want rdma.Completion) {
	t.Helper()
	want.QP = p.qp[side].Number()
	if got := p.completions(t, side, 1); len(got) != 1 || got[0] != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func (p *pair) send(t testing.TB, side int, wrs ...rdma.SendWR) {
	t.Helper()
	if n, err := p.qp[side].PostSend(wrs); n != len(wrs) || err != nil {
		t.Fatalf("posted %d sends of %d: %v", n, len(wrs), err)
	}
}

func (p *pair) recv(t testing.TB, side int, wrs ...rdma.RecvWR) {
	t.Helper()
	if n, err := p.qp[side].PostRecv(wrs); n != len(wrs) || err != nil {
		t.Fatalf("posted %d receives of %d: %v", n, len(wrs), err)
	}
}
