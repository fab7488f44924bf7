package tcp

import "github.com/symphony-serving/symphony/transport"

// Hosts implements transport.Hosts.
func (l *link) Hosts() (local, remote string) {
	return transport.HostOf(l.conn.LocalAddr()), transport.HostOf(l.conn.RemoteAddr())
}
