package parts

import (
	"net"
	"net/netip"
	"strings"
)

// warnExposed says which of the addresses anybody can join at who can reach them.
// key is the configuration's.
func (p *Process) warnExposed(key string, addresses ...string) {
	if p.cfg.Token != "" {
		return
	}
	for _, a := range addresses {
		if exposed(a) {
			p.Log.Warn().Str(key, a).Msg("this address may be reached from other hosts, and there is no token: whoever reaches it can be a member of the cluster. " +
				"Set token, the same for all parts, or listen on 127.0.0.1")
		}
	}
}

// exposed reports whether an address to listen on is not this host's alone.
func exposed(address string) bool {
	rest, ok := strings.CutPrefix(address, "tcp:")
	if !ok {
		return false
	}
	host, _, err := net.SplitHostPort(rest)
	if err != nil || host == "localhost" {
		return false // Listen will say what is wrong
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.Unmap().IsLoopback()
}
