package discover

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/rdma"
)

// ErrNone: there is no device at all. (Others of Open's errors say what is wrong
// with the devices that there are.)
var ErrNone = errors.New("no RDMA device here")

// Open opens a device as Symphony's processes do: the one that c names, or else the
// first that can be used; where c leaves them open (Port 0, GIDIndex negative), its
// first active port and that port's best address; memory on its NUMA node.
func Open(v rdma.Verbs, c rdma.Config) (*rdma.NIC, error) { return openBelow("/", v, c) }

func openBelow(root string, v rdma.Verbs, c rdma.Config) (*rdma.NIC, error) {
	found, err := List(root)
	if err != nil {
		return nil, err
	}
	_, door := v.Devices()
	switch {
	case door != nil && len(found) > 0:
		return nil, fmt.Errorf("RDMA device %s is here, but cannot be used: %w", found[0].Name, door)
	case door != nil && c.Device == "":
		return nil, fmt.Errorf("%w (%w)", ErrNone, door)
	}
	var errs []error
	for _, d := range found {
		if c.Device != "" && d.Name != c.Device {
			continue
		}
		nic, err := d.open(v, c)
		if err == nil {
			return nic, nil
		}
		errs = append(errs, err)
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case c.Device != "":
		return nil, fmt.Errorf("there is no device %s: `symphony rdma list` shows what there is", c.Device)
	}
	return nil, ErrNone
}

// open fills in what the configuration leaves to be found.
func (d Device) open(v rdma.Verbs, c rdma.Config) (*rdma.NIC, error) {
	c.Device, c.NUMANode = d.Name, d.NUMANode
	if d.IWARP() {
		return nil, fmt.Errorf("RDMA device %s speaks iWARP, which Symphony does not", d.Name)
	}
	if c.Port == 0 {
		if c.Port, _ = d.ActivePort(); c.Port == 0 {
			return nil, fmt.Errorf("RDMA device %s: no port is active: is its network interface up?", d.Name)
		}
	}
	if c.GIDIndex < 0 {
		gid, ok := d.BestGID(c.Port)
		if !ok {
			return nil, fmt.Errorf("RDMA device %s: port %d has no GID: give its network interface an address", d.Name, c.Port)
		}
		c.GIDIndex = gid
	}
	return rdma.Open(v, c)
}
