package main

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
)

// goodRDMA is a host and a device with nothing in the way.
func goodRDMA() (rdmaHost, discover.Device) {
	h := rdmaHost{known: []string{"mlx5_0"}, memlock: ^uint64(0), denied: func(string) bool { return false }}
	d := discover.Device{
		Name: "mlx5_0", Driver: "mlx5_core", NodeType: "CA", NUMANode: 1, Verbs: "/dev/infiniband/uverbs0", HasVerbs: true,
		Ports: []discover.Port{
			{Number: 1, State: rdma.PortDown},
			{Number: 2, State: rdma.PortActive, LinkLayer: "Ethernet", Rate: "100 Gb/sec", GIDs: []discover.GID{
				{Index: 0, Addr: netip.MustParseAddr("fe80::1"), Type: discover.RoCEv2, Netdev: "ens1"},
				{Index: 3, Addr: netip.MustParseAddr("10.0.0.7"), Type: discover.RoCEv2, Netdev: "ens1"},
			}},
		},
	}
	return h, d
}

// TestRDMAObstacles: each thing in the way is named, alone, with what helps.
func TestRDMAObstacles(t *testing.T) {
	for want, spoil := range map[string]func(*rdmaHost, *discover.Device){
		"build with": func(h *rdmaHost, _ *discover.Device) {
			h.door = &rdma.UnsupportedError{What: "verbs", Need: "build with"}
		},
		"ibverbs-providers":   func(h *rdmaHost, _ *discover.Device) { h.known = nil },
		"modprobe ib_uverbs":  func(_ *rdmaHost, d *discover.Device) { d.Verbs = "" },
		"pass it in":          func(_ *rdmaHost, d *discover.Device) { d.HasVerbs = false },
		"cannot be opened":    func(h *rdmaHost, _ *discover.Device) { h.denied = func(string) bool { return true } },
		"iWARP":               func(_ *rdmaHost, d *discover.Device) { d.NodeType = "RNIC" },
		"no port is active":   func(_ *rdmaHost, d *discover.Device) { d.Ports[1].State = rdma.PortInit },
		"port 2 has no GID":   func(_ *rdmaHost, d *discover.Device) { d.Ports[1].GIDs = nil },
		"may lock 64 KiB":     func(h *rdmaHost, _ *discover.Device) { h.memlock = 64 << 10 },
		"mlx5_0: usable, wit": func(*rdmaHost, *discover.Device) {},
	} {
		h, d := goodRDMA()
		spoil(&h, &d)
		var out strings.Builder
		if err := printRDMA(&out, []discover.Device{d}, h); err != nil {
			t.Fatal(err)
		}
		text, reasons := out.String(), 1
		if strings.HasPrefix(want, "mlx5_0: usable") {
			reasons = 0
		}
		if !strings.Contains(text, want) || strings.Count(text, "\n  - ") != reasons {
			t.Errorf("want %q among %d reasons, got\n%s", want, reasons, text)
		}
	}
}

// TestRDMATable: a row per address, the chosen one marked, blanks where a row
// repeats the one above.
func TestRDMATable(t *testing.T) {
	h, d := goodRDMA()
	var out strings.Builder
	if err := printRDMA(&out, []discover.Device{d}, h); err != nil {
		t.Fatal(err)
	}
	want := `DEVICE  DRIVER     NUMA  PORT  STATE   LINK      RATE        GID  TYPE     ADDRESS   NETDEV
mlx5_0  mlx5_core  1     1     down    -         -           -    -        -         -
                         2     active  Ethernet  100 Gb/sec  0    RoCE v2  fe80::1   ens1
                                                             3*   RoCE v2  10.0.0.7  ens1

mlx5_0: usable, with port 2 and GID 3
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestRDMANone: no device is one line, and the reason why nobody could know.
func TestRDMANone(t *testing.T) {
	var out strings.Builder
	if err := printRDMA(&out, nil, rdmaHost{}); err != nil || out.String() != "no RDMA device here: links use TCP\n" {
		t.Errorf("error %v, got %q", err, out.String())
	}
}
