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

// AddressHost is the host of an address "tcp:host:port"; "" where it has none.
func AddressHost(address string) string {
	_, rest, err := SplitAddress(address)
	if err != nil {
		return ""
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil {
		return ""
	}
	return host
}

// Loopback reports whether a host is this one, whatever host it is.
func Loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
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
