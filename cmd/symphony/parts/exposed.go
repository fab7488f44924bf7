package parts

import "github.com/symphony-serving/symphony/transport/wire"

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
	host, _, err := wire.SplitTCP(address)
	return err == nil && !wire.Loopback(host) // Listen will say what is wrong with another
}
