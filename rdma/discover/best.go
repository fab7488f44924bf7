package discover

import "github.com/symphony-serving/symphony/rdma"

// Port finds a port by its number.
func (d Device) Port(number int) (Port, bool) {
	for _, p := range d.Ports {
		if p.Number == number {
			return p, true
		}
	}
	return Port{}, false
}

// ActivePort is the first port that carries traffic.
func (d Device) ActivePort() (int, bool) {
	for _, p := range d.Ports {
		if p.State == rdma.PortActive {
			return p.Number, true
		}
	}
	return 0, false
}

// IWARP reports whether the device speaks it: its queue pairs can only be
// connected through rdma_cm, which Symphony does not do.
func (d Device) IWARP() bool { return d.NodeType == "RNIC" }

// BestGID chooses the entry of a port's table that links should use: the first of
// the best rank. False: the table is empty.
func (d Device) BestGID(port int) (index int, ok bool) {
	p, _ := d.Port(port)
	best := -1
	for _, g := range p.GIDs {
		if r := g.rank(); r > best {
			best, index, ok = r, g.Index, true
		}
	}
	return index, ok
}

// rank of a GID, the higher the better. RoCE v2 passes routers, v1 does not. IPv4
// before IPv6, because administrators route and mark it; a link-local address is
// the one that every port has, configured or not, and it passes no router.
func (g GID) rank() int {
	switch {
	case g.Type == RoCEv2 && g.Addr.Is4():
		return 4
	case g.Type == RoCEv2 && !g.Addr.IsLinkLocalUnicast():
		return 3
	case g.Type == RoCEv2:
		return 2
	case g.Type == RoCEv1:
		return 1
	}
	return 0 // InfiniBand without types, iWARP: the first
}
