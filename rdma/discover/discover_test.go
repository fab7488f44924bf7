package discover

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
)

// fake writes a file system: path to content; "-> target" is a link.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if len(content) > 3 && content[:3] == "-> " {
			err = os.Symlink(content[3:], path)
		} else {
			err = os.WriteFile(path, []byte(content+"\n"), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const empty = "0000:0000:0000:0000:0000:0000:0000:0000"

// mellanox is a ConnectX of two ports, of which the second is down, as the kernel
// shows it: the class folder holds links into the PCI tree.
func mellanox() map[string]string {
	pci := "sys/devices/pci0000:80/0000:81:00.0/"
	dev := pci + "infiniband/mlx5_0/"
	p1, p2 := dev+"ports/1/", dev+"ports/2/"
	return map[string]string{
		"sys/class/infiniband/mlx5_0":              "-> ../../devices/pci0000:80/0000:81:00.0/infiniband/mlx5_0",
		dev + "device":                             "-> ../../",
		pci + "numa_node":                          "1",
		pci + "driver":                             "-> ../../../bus/pci/drivers/mlx5_core",
		dev + "node_type":                          "1: CA",
		dev + "fw_ver":                             "22.31.1014",
		p1 + "state":                               "4: ACTIVE",
		p1 + "link_layer":                          "Ethernet",
		p1 + "rate":                                "100 Gb/sec (4X EDR)",
		p1 + "gids/0":                              "fe80:0000:0000:0000:0e42:a1ff:fe00:0001",
		p1 + "gids/1":                              "fe80:0000:0000:0000:0e42:a1ff:fe00:0001",
		p1 + "gids/2":                              "0000:0000:0000:0000:0000:ffff:0a01:0203",
		p1 + "gids/3":                              "0000:0000:0000:0000:0000:ffff:0a01:0203",
		p1 + "gids/4":                              empty,
		p1 + "gids/10":                             "2001:0db8:0000:0000:0000:0000:0000:0007",
		p1 + "gid_attrs/types/0":                   "IB/RoCE v1",
		p1 + "gid_attrs/types/1":                   "RoCE v2",
		p1 + "gid_attrs/types/2":                   "IB/RoCE v1",
		p1 + "gid_attrs/types/3":                   "RoCE v2",
		p1 + "gid_attrs/types/10":                  "RoCE v2",
		p1 + "gid_attrs/ndevs/0":                   "ens1f0",
		p1 + "gid_attrs/ndevs/3":                   "ens1f0.7",
		p2 + "state":                               "1: DOWN",
		p2 + "link_layer":                          "InfiniBand",
		p2 + "gids/0":                              empty,
		"sys/class/infiniband_verbs/abi_version":   "6",
		"sys/class/infiniband_verbs/uverbs3":       "-> ../../devices/pci0000:80/0000:81:00.0/infiniband_verbs/uverbs3",
		pci + "infiniband_verbs/uverbs3/ibdev":     "mlx5_0",
		"sys/class/infiniband_mad/umad0":           "-> ../../devices/pci0000:80/0000:81:00.0/infiniband_mad/umad0",
		pci + "infiniband_mad/umad0/ibdev":         "mlx5_0",
		"dev/infiniband/uverbs3":                   "",
		"dev/infiniband/rdma_cm":                   "",
		"sys/class/infiniband_verbs/uverbs0/ibdev": "another",
	}
}

// softRoCE is rdma_rxe over eth0, as Linux 6.1 shows it; the container has no
// character device.
func softRoCE() map[string]string {
	dev := "sys/devices/virtual/infiniband/rxe0/"
	return map[string]string{
		"sys/class/infiniband/rxe0":                          "-> ../../devices/virtual/infiniband/rxe0",
		dev + "parent":                                       "eth0",
		dev + "node_type":                                    "1: CA",
		dev + "ports/1/state":                                "4: ACTIVE",
		dev + "ports/1/link_layer":                           "Ethernet",
		dev + "ports/1/gids/0":                               "fe80:0000:0000:0000:0e42:a1ff:fe00:0001",
		dev + "ports/1/gid_attrs/types/0":                    "RoCE v2",
		dev + "ports/1/gid_attrs/ndevs/0":                    "eth0",
		"sys/class/infiniband_verbs/uverbs0":                 "-> ../../devices/virtual/infiniband_verbs/uverbs0",
		"sys/devices/virtual/infiniband_verbs/uverbs0/ibdev": "rxe0",
		"sys/class/net/eth0/device/numa_node":                "0",
	}
}

// TestHardware reads every attribute of a real NIC's tree.
func TestHardware(t *testing.T) {
	all, err := List(fake(t, mellanox()))
	if err != nil || len(all) != 1 {
		t.Fatalf("found %+v, error %v", all, err)
	}
	addr := netip.MustParseAddr
	want := Device{
		Name: "mlx5_0", Driver: "mlx5_core", NodeType: "CA", Firmware: "22.31.1014", NUMANode: 1,
		Verbs: "/dev/infiniband/uverbs3", HasVerbs: true,
		Chars: []string{"/dev/infiniband/umad0", "/dev/infiniband/uverbs3"},
		Ports: []Port{
			{Number: 1, State: rdma.PortActive, LinkLayer: "Ethernet", Rate: "100 Gb/sec (4X EDR)", Netdev: "ens1f0", GIDs: []GID{
				{0, addr("fe80::e42:a1ff:fe00:1"), RoCEv1, "ens1f0"},
				{1, addr("fe80::e42:a1ff:fe00:1"), RoCEv2, ""},
				{2, addr("10.1.2.3"), RoCEv1, ""},
				{3, addr("10.1.2.3"), RoCEv2, "ens1f0.7"},
				{10, addr("2001:db8::7"), RoCEv2, ""},
			}},
			{Number: 2, State: rdma.PortDown, LinkLayer: "InfiniBand"},
		},
	}
	if !reflect.DeepEqual(all[0], want) {
		t.Errorf("got\n%+v, want\n%+v", all[0], want)
	}
	if port, ok := all[0].ActivePort(); port != 1 || !ok {
		t.Errorf("active port %d, %v", port, ok)
	}
}

// TestSoftware: the driver and the NUMA node are those behind the network device.
func TestSoftware(t *testing.T) {
	all, err := List(fake(t, softRoCE()))
	if err != nil || len(all) != 1 {
		t.Fatalf("found %+v, error %v", all, err)
	}
	d := all[0]
	if !d.Software || d.Driver != "rdma_rxe" || d.NUMANode != 0 || d.Verbs != "/dev/infiniband/uverbs0" || d.HasVerbs || d.IWARP() || d.Ports[0].Netdev != "eth0" {
		t.Errorf("got %+v", d)
	}
}

// TestNone: no RDMA in the kernel, and RDMA without a device, are no errors.
func TestNone(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"no class":  {"sys/class/net/eth0/mtu": "1500"},
		"no device": {"sys/class/infiniband_verbs/abi_version": "6"},
	} {
		if all, err := List(fake(t, files)); len(all) != 0 || err != nil {
			t.Errorf("%s: found %+v, error %v", what, all, err)
		}
	}
	if _, err := List(""); err != nil { // this host
		t.Error(err)
	}
}

// TestBestGID is the order of preference; among equals the first.
func TestBestGID(t *testing.T) {
	gid := func(index int, addr string, kind GIDType) GID {
		return GID{Index: index, Addr: netip.MustParseAddr(addr), Type: kind}
	}
	local1, local2 := gid(0, "fe80::1", RoCEv1), gid(1, "fe80::1", RoCEv2)
	v4old, v4 := gid(2, "10.0.0.1", RoCEv1), gid(3, "10.0.0.1", RoCEv2)
	v6, v4next := gid(4, "2001:db8::1", RoCEv2), gid(5, "10.0.0.2", RoCEv2)
	ib := gid(0, "fe80::2", GIDUnknown)
	for _, c := range []struct {
		name string
		gids []GID
		want int
	}{
		{"IPv4 over v2", []GID{local1, local2, v4old, v4, v6, v4next}, 3},
		{"IPv6 over v2", []GID{local1, local2, v4old, v6}, 4},
		{"link-local over v2", []GID{local1, local2, v4old}, 1},
		{"v1", []GID{local1, v4old}, 0},
		{"InfiniBand", []GID{ib}, 0},
		{"none", nil, -1},
	} {
		d := Device{Ports: []Port{{Number: 1}, {Number: 2, GIDs: c.gids}}}
		got, ok := d.BestGID(2)
		if !ok {
			got = -1
		}
		if got != c.want {
			t.Errorf("%s: index %d, want %d", c.name, got, c.want)
		}
		if _, ok := d.BestGID(1); ok {
			t.Errorf("%s: a port without GIDs has a best one", c.name)
		}
	}
}
