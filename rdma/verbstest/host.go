package verbstest

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/symphony-serving/symphony/rdma"
)

// host is a side with its device open. What it makes, it closes at the end of
// the test, the last first.
type host struct {
	t    *testing.T
	side Side
	dev  rdma.Device
	port rdma.PortAttr
	gid  rdma.GID
}

// openHost opens the device of a side.
func openHost(t *testing.T, s Side) *host {
	t.Helper()
	dev, err := s.Verbs.Open(s.Device)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t: t, side: s, dev: dev}
	h.closing(s.Device, dev.Close)
	h.port, err = dev.Port(s.Port)
	if err != nil {
		t.Fatal(err)
	}
	if h.port.Ethernet {
		h.gid, err = dev.GID(s.Port, s.GIDIndex)
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// closing closes something at the end of the test.
func (h *host) closing(what string, close func() error) {
	h.t.Cleanup(func() {
		if err := close(); err != nil {
			h.t.Errorf("close %s: %v", what, err)
		}
	})
}

// cq makes a CQ.
func (h *host) cq(depth int, ch rdma.Channel) rdma.CQ {
	h.t.Helper()
	cq, err := h.dev.NewCQ(depth, ch)
	if err != nil {
		h.t.Fatal(err)
	}
	h.closing("CQ", cq.Close)
	return cq
}

// channel makes a channel.
func (h *host) channel() rdma.Channel {
	h.t.Helper()
	ch, err := h.dev.NewChannel()
	if err != nil {
		h.t.Fatal(err)
	}
	h.closing("channel", ch.Close)
	return ch
}

// memory is registered memory outside the Go heap.
type memory struct {
	rdma.Region
	bytes []byte
}

// memory makes n bytes.
func (h *host) memory(n int, access rdma.Access) *memory {
	h.t.Helper()
	bytes := mapped(h.t, n)
	r, err := h.dev.Register(bytes, access)
	if err != nil {
		h.t.Fatal(err)
	}
	m := &memory{Region: r, bytes: bytes}
	h.closing("region", func() error {
		if m.Region == nil { // the test has closed it
			return nil
		}
		return m.Region.Close()
	})
	return m
}

// mapped gives memory of the operating system's, until the test ends.
func mapped(t *testing.T, n int) []byte {
	t.Helper()
	bytes, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(bytes); err != nil {
			t.Errorf("unmap: %v", err)
		}
	})
	return bytes
}

// address of the byte at offset.
func (m *memory) address(offset int) uint64 {
	return uint64(uintptr(unsafe.Pointer(&m.bytes[offset])))
}

// piece of the memory, as an SGE.
func (m *memory) piece(offset, n int) rdma.SGE {
	return rdma.SGE{Addr: m.address(offset), Length: uint32(n), LKey: m.LKey()}
}

// paint fills the memory with bytes that differ with place and seed.
func (m *memory) paint(seed int) {
	for i := range m.bytes {
		m.bytes[i] = byte(i*7 + i>>8*13 + seed)
	}
}
