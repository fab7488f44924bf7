package fakeverbs

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
)

// device is a NIC opened, with its protection domain.
type device struct {
	// Immutable.
	f   *Fabric
	nic *NIC

	// Guarded by the fabric's lock.
	open   Counts // of its children; Devices is not used
	events []rdma.Event
	dead   bool
	closed bool
}

// Name, Attr: see rdma.Device.
func (d *device) Name() string          { return d.nic.name }
func (d *device) Attr() rdma.DeviceAttr { return d.f.c.Attr }

// Port gives the port's state. See rdma.Device.
func (d *device) Port(port int) (rdma.PortAttr, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if err := d.usable("query port"); err != nil {
		return rdma.PortAttr{}, err
	}
	if port != 1 {
		return rdma.PortAttr{}, d.fail("query port", fmt.Sprintf("there is no port %d", port), syscall.EINVAL)
	}
	p := rdma.PortAttr{State: rdma.PortActive, MTU: d.f.c.MTU, LID: d.nic.lid, Ethernet: !d.f.c.InfiniBand,
		GIDs: len(d.nic.gids), MessageMax: d.f.c.MessageMax}
	if d.nic.down {
		p.State = rdma.PortDown
	}
	return p, nil
}

// GID gives an entry of the port's table. See rdma.Device.
func (d *device) GID(port, index int) (rdma.GID, error) {
	if port != 1 || index < 0 || index >= len(d.nic.gids) {
		return rdma.GID{}, d.fail("query GID", fmt.Sprintf("port %d has none at index %d", port, index), syscall.EINVAL)
	}
	return d.nic.gids[index], nil
}

// Async takes the events. See rdma.Device.
func (d *device) Async(dst []rdma.Event) (int, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if d.closed {
		return 0, d.fail("asynchronous events", "it was closed", syscall.EINVAL)
	}
	n := copy(dst, d.events)
	d.events = slices.Delete(d.events, 0, n)
	return n, nil
}

// Close gives the device up. See rdma.Device.
func (d *device) Close() error {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	switch {
	case d.closed:
		return d.fail("close", "it was closed already", syscall.EINVAL)
	case d.open != Counts{}:
		return d.fail("close", fmt.Sprintf("there are still open %d regions, %d channels, %d CQs, %d QPs",
			d.open.Regions, d.open.Channels, d.open.CQs, d.open.QPs), syscall.EBUSY)
	}
	d.closed = true
	at := slices.Index(d.nic.devices, d)
	d.nic.devices = slices.Delete(d.nic.devices, at, at+1)
	return nil
}

// usable says whether something can be asked of the device. The lock is held.
func (d *device) usable(what string) error {
	switch {
	case d.closed:
		return d.fail(what, "the device was closed", syscall.EINVAL)
	case d.dead:
		return d.fail(what, "the device is dead", syscall.EIO)
	}
	return nil
}

// report queues an event. The lock is held.
func (d *device) report(e rdma.Event) { d.events = append(d.events, e) }

// fail words an error: the host and device, what was tried, why not.
func (d *device) fail(what, why string, err error) error {
	return fmt.Errorf("fake device %s/%s: %s: %s: %w", d.nic.host.name, d.nic.name, what, why, err)
}
