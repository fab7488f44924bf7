// Package discover finds the RDMA devices of a host without opening any: which
// there are, in what state, under which addresses, and near which memory. It reads
// sysfs (through rdmamap, and by itself where rdmamap says too little), so it works
// in binaries without cgo and on hosts without libibverbs, and can say why a device
// that the kernel has is of no use.
//
// It is the cold path of starting up: nothing here is cached, every call looks again.
package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/rdma"
)

// Device is what sysfs says of an RDMA device.
type Device struct {
	Name     string
	Driver   string // the kernel's, of the PCI device; "rdma_rxe" of soft-RoCE; "" unknown
	Software bool   // there is no hardware behind it
	NodeType string // "CA"; of iWARP "RNIC"
	Firmware string
	NUMANode int      // of the device, or of the network device below it; -1 unknown
	Verbs    string   // /dev/infiniband/uverbsN; "" if the kernel offers none
	HasVerbs bool     // Verbs is there as a file (a container may not have it)
	Chars    []string // all its character devices that rdmamap names
	Ports    []Port
}

// Port of a device.
type Port struct {
	Number    int
	State     rdma.PortState
	LinkLayer string // "Ethernet", "InfiniBand"
	Rate      string // "100 Gb/sec (4X EDR)"
	Netdev    string // the network device of its first GID; "" of InfiniBand
	GIDs      []GID  // those that are not empty, by index
}

// GIDType is the kind of packets that a GID's traffic is.
type GIDType uint8

const (
	// GIDUnknown is also that of InfiniBand and iWARP.
	GIDUnknown GIDType = iota
	RoCEv1             // an Ethernet type of its own: does not pass routers
	RoCEv2             // UDP
)

// String names it as sysfs does.
func (t GIDType) String() string {
	switch t {
	case RoCEv1:
		return "RoCE v1"
	case RoCEv2:
		return "RoCE v2"
	}
	return "unknown"
}

// GID is an entry of a port's table.
type GID struct {
	Index  int
	Addr   netip.Addr // IPv4 where it is mapped
	Type   GIDType
	Netdev string
}

// List finds the devices of the host whose file system begins at root ("" or "/":
// this one's), by name. None is not an error.
func List(root string) ([]Device, error) {
	t := tree{root: filepath.Clean("/" + root)}
	class := t.path("/sys/class/infiniband")
	if _, err := os.ReadDir(class); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("finding RDMA devices: %w", err)
	}
	names, chars, ports := t.mapped()
	var all []Device
	for _, name := range names {
		all = append(all, t.device(name, chars[name], ports[name]))
	}
	return all, nil
}

// tree reads sysfs below root.
type tree struct{ root string }

func (t tree) path(parts ...string) string {
	return filepath.Join(append([]string{t.root}, parts...)...)
}

// text is a file's content in one line; "" if it cannot be read: attributes come
// and go with driver and kernel, and entries of a table that are empty give EINVAL.
func (t tree) text(parts ...string) string {
	b, err := os.ReadFile(t.path(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (t tree) device(name string, chars, ports []string) Device {
	at := "/sys/class/infiniband/" + name
	d := Device{
		Name:     name,
		Driver:   t.driver(at),
		NodeType: afterColon(t.text(at, "node_type")),
		Firmware: t.text(at, "fw_ver"),
		NUMANode: t.numaNode(at + "/device"),
		Chars:    chars,
	}
	if _, err := os.Stat(t.path(at, "device")); err != nil {
		d.Software = true
		// rxe has this attribute, the network device that it sits on; siw has not.
		if parent := t.text(at, "parent"); parent != "" {
			d.Driver = "rdma_rxe"
			d.NUMANode = t.numaNode("/sys/class/net/" + parent + "/device")
		}
	}
	for _, c := range chars {
		if strings.HasPrefix(filepath.Base(c), "uverbs") {
			d.Verbs = c
			_, err := os.Stat(t.path(c))
			d.HasVerbs = err == nil
		}
	}
	for _, p := range ports {
		if number, err := strconv.Atoi(p); err == nil {
			d.Ports = append(d.Ports, t.port(at+"/ports/"+p, number))
		}
	}
	slices.SortFunc(d.Ports, func(a, b Port) int { return a.Number - b.Number })
	return d
}

func (t tree) driver(at string) string {
	link, err := os.Readlink(t.path(at, "device/driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(link)
}

func (t tree) numaNode(device string) int {
	n, err := strconv.Atoi(t.text(device, "numa_node"))
	if err != nil {
		return -1
	}
	return n
}

func (t tree) port(at string, number int) Port {
	state, _ := strconv.Atoi(beforeColon(t.text(at, "state")))
	p := Port{
		Number:    number,
		State:     rdma.PortState(state),
		LinkLayer: t.text(at, "link_layer"),
		Rate:      t.text(at, "rate"),
	}
	entries, _ := os.ReadDir(t.path(at, "gids"))
	for _, e := range entries {
		if g, ok := t.gid(at, e.Name()); ok {
			p.GIDs = append(p.GIDs, g)
		}
	}
	slices.SortFunc(p.GIDs, func(a, b GID) int { return a.Index - b.Index })
	if len(p.GIDs) > 0 {
		p.Netdev = p.GIDs[0].Netdev
	}
	return p
}

// gid reads an entry; false if it is empty.
func (t tree) gid(at, index string) (GID, bool) {
	i, err := strconv.Atoi(index)
	if err != nil {
		return GID{}, false
	}
	addr, err := netip.ParseAddr(t.text(at, "gids", index))
	if err != nil || addr.IsUnspecified() {
		return GID{}, false
	}
	g := GID{Index: i, Addr: addr.Unmap(), Netdev: t.text(at, "gid_attrs/ndevs", index)}
	switch kind := t.text(at, "gid_attrs/types", index); {
	case kind == "RoCE v2":
		g.Type = RoCEv2
	case kind == "IB/RoCE v1" && t.text(at, "link_layer") == "Ethernet": // else it is IB's
		g.Type = RoCEv1
	}
	return g, true
}

// The kernel writes "4: ACTIVE".
func beforeColon(s string) string {
	before, _, _ := strings.Cut(s, ":")
	return strings.TrimSpace(before)
}

func afterColon(s string) string {
	_, after, _ := strings.Cut(s, ":")
	return strings.TrimSpace(after)
}
