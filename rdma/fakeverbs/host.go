package fakeverbs

import (
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
)

// Host is a machine of the fabric. It is an rdma.Verbs.
type Host struct {
	f    *Fabric
	name string
	nics []*NIC
}

// NIC is a device as a thing that can break: it outlives its Opens.
type NIC struct {
	// Immutable.
	f    *Fabric
	host *Host
	name string
	gids []rdma.GID
	lid  uint16

	// Guarded by the fabric's lock.
	devices []*device
	qps     map[uint32]*queuePair
	lastQPN uint32
	keys    keyTable
	down    bool
	faults  map[uint32]rdma.Status // of the next send of a QP; 0: of any
}

// Devices names the host's NICs.
func (h *Host) Devices() ([]string, error) {
	var names []string
	for _, n := range h.nics {
		names = append(names, n.name)
	}
	return names, nil
}

// NIC gives the NIC of that name, or nil.
func (h *Host) NIC(name string) *NIC {
	for _, n := range h.nics {
		if n.name == name {
			return n
		}
	}
	return nil
}

// Open opens a NIC. It can be opened several times: each has its own protection
// domain.
func (h *Host) Open(name string) (rdma.Device, error) {
	n := h.NIC(name)
	if n == nil {
		return nil, fmt.Errorf("host %s: open device %q: %w", h.name, name, syscall.ENODEV)
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	d := &device{f: h.f, nic: n}
	n.devices = append(n.devices, d)
	return d, nil
}

// firstQPN of every NIC: the same, so that who takes a QP's number for an
// identity on all hosts fails early.
const firstQPN = 0x11

// addNIC makes a NIC. The lock is held.
func (f *Fabric) addNIC(h *Host, name string) *NIC {
	place := uint16(len(f.nics) + 1)
	n := &NIC{f: f, host: h, name: name, lastQPN: firstQPN - 1, qps: map[uint32]*queuePair{}, faults: map[uint32]rdma.Status{}}
	local := rdma.GID{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint16(local[14:], place)
	n.gids = []rdma.GID{local}
	if f.c.InfiniBand {
		n.lid = place
	} else {
		mapped := rdma.GID{10: 0xff, 11: 0xff, 12: 10} // ::ffff:10.0.0.0
		binary.BigEndian.PutUint16(mapped[14:], place)
		n.gids = append(n.gids, mapped)
	}
	f.nics = append(f.nics, n)
	return n
}

// find gives the NIC at an address: by GID, or by LID where there is no GID.
// The lock is held.
func (f *Fabric) find(gid rdma.GID, lid uint16) *NIC {
	for _, n := range f.nics {
		if gid == (rdma.GID{}) && lid != 0 && n.lid == lid || slices.Contains(n.gids, gid) {
			return n
		}
	}
	return nil
}

// at says whether gid, or lid where gid is zero, is this NIC's address.
func (n *NIC) at(gid rdma.GID, lid uint16) bool { return n.f.find(gid, lid) == n }

// joined says whether packets get from n to m. The lock is held.
func (f *Fabric) joined(n, m *NIC) bool {
	return !n.down && !m.down && !f.cut[pairOf(n.host.name, m.host.name)]
}

func pairOf(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }
