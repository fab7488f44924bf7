package transport

import (
	"net"
	"net/netip"
)

// Hosts is a Link that knows the hosts of its ends, as the network sees them: addresses
// without ports, "" where there are none.
type Hosts interface {
	Hosts() (local, remote string)
}

// HostsOf are the hosts of a link's ends; "" where it has none.
func HostsOf(l Link) (local, remote string) {
	if h, ok := l.(Hosts); ok {
		return h.Hosts()
	}
	return "", ""
}

// HostOf is the address's host, an IPv4 address as such where it travels as IPv6. One of a
// link alone (fe80::1%eth0) keeps its zone, which is this host's name for the link: others
// cannot dial it. ("" would mean the same process.)
func HostOf(a net.Addr) string {
	if p, err := netip.ParseAddrPort(a.String()); err == nil {
		return p.Addr().Unmap().String()
	}
	return ""
}
