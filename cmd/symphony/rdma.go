package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
)

type rdmaCmd struct {
	List rdmaListCmd `cmd:"" help:"Devices, ports and addresses, and for each device whether links can use it or what stands in the way."`
}

type rdmaListCmd struct{}

// Run prints the table. No device is an answer, not an error.
func (rdmaListCmd) Run() error {
	devices, err := discover.List("/")
	if err != nil {
		return err
	}
	return printRDMA(os.Stdout, devices, rdmaHostNow())
}

// rdmaHost is what decides, beside the devices themselves, whether they can be used.
type rdmaHost struct {
	door    error    // why libibverbs cannot be asked; nil: it can
	known   []string // devices that libibverbs has a provider for
	memlock uint64   // bytes that this process may pin
	denied  func(file string) bool
}

// memlockLeast is what registered memory takes by default: a frontend's arena (256 MiB)
// or a backend's first batch buffers, and lanes; below it,
// registering will fail at some time.
const memlockLeast = 320 << 20

func rdmaHostNow() rdmaHost {
	known, err := verbs.New().Devices()
	return rdmaHost{
		door:    err,
		known:   known,
		memlock: memlock(),
		denied:  denied,
	}
}

// obstacles are the reasons for which links cannot use the device, each with what
// would help.
func (h rdmaHost) obstacles(d discover.Device) []string {
	var all []string
	if h.door != nil {
		all = append(all, h.door.Error())
	} else if !slices.Contains(h.known, d.Name) {
		all = append(all, "libibverbs does not know it: install its provider (ibverbs-providers)")
	}
	switch {
	case d.Verbs == "":
		all = append(all, "the kernel offers no /dev/infiniband/uverbs* for it: modprobe ib_uverbs")
	case !d.HasVerbs:
		all = append(all, d.Verbs+" is not there: in a container, pass it in")
	case h.denied(d.Verbs):
		all = append(all, d.Verbs+" cannot be opened for reading and writing by this user")
	}
	if d.IWARP() {
		all = append(all, "it speaks iWARP, which Symphony does not")
	}
	if port, ok := d.ActivePort(); !ok {
		all = append(all, "no port is active: is the network device up, and the cable in?")
	} else if _, ok := d.BestGID(port); !ok {
		all = append(all, fmt.Sprintf("port %d has no GID: give its network device an address", port))
	}
	if h.memlock < memlockLeast {
		all = append(all, fmt.Sprintf("this process may lock %d KiB of memory; the default arena and buffers need %d: raise the memlock limit (ulimit -l, LimitMEMLOCK), or lower frontend.arena and rdma.buffers", h.memlock>>10, memlockLeast>>10))
	}
	return all
}

// printRDMA prints a row per address, then a line per device.
func printRDMA(to io.Writer, devices []discover.Device, h rdmaHost) error {
	if len(devices) == 0 {
		text := "no RDMA device here: links use TCP\n"
		if errors.Is(h.door, errors.ErrUnsupported) {
			text += "(" + h.door.Error() + ")\n"
		}
		_, err := io.WriteString(to, text)
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DEVICE\tDRIVER\tNUMA\tPORT\tSTATE\tLINK\tRATE\tGID\tTYPE\tADDRESS\tNETDEV")
	for _, d := range devices {
		first := d.Name + "\t" + orDash(d.Driver) + "\t" + numaText(d.NUMANode)
		for _, p := range d.Ports {
			port := fmt.Sprintf("%d\t%v\t%s\t%s", p.Number, p.State, orDash(p.LinkLayer), orDash(p.Rate))
			if len(p.GIDs) == 0 {
				fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\n", first, port)
			}
			best, _ := d.BestGID(p.Number)
			for _, g := range p.GIDs {
				mark := ""
				if g.Index == best && p.State == rdma.PortActive {
					mark = "*"
				}
				fmt.Fprintf(w, "%s\t%s\t%d%s\t%v\t%v\t%s\n", first, port, g.Index, mark, g.Type, g.Addr, orDash(g.Netdev))
				first, port = "\t\t", "\t\t\t"
			}
			first = "\t\t"
		}
		if len(d.Ports) == 0 {
			fmt.Fprintf(w, "%s\t-\t-\t-\t-\t-\t-\t-\t-\n", first)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	for _, d := range devices {
		if err := printVerdict(to, d, h); err != nil {
			return err
		}
	}
	return nil
}

func printVerdict(to io.Writer, d discover.Device, h rdmaHost) error {
	why := h.obstacles(d)
	if len(why) > 0 {
		_, err := fmt.Fprintf(to, "%s: not usable, links use TCP\n  - %s\n", d.Name, strings.Join(why, "\n  - "))
		return err
	}
	port, _ := d.ActivePort()
	gid, _ := d.BestGID(port)
	note := ""
	if d.Software {
		note = "; in software: it works, but not faster than TCP"
	}
	_, err := fmt.Fprintf(to, "%s: usable, with port %d and GID %d%s\n", d.Name, port, gid, note)
	return err
}

func numaText(node int) string {
	if node < 0 {
		return "-"
	}
	return fmt.Sprint(node)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
