package transport

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// ReadsLimit bounds the READs in flight on one link, on both its sides: a
// reader beyond half of it gets ErrFull, a peer beyond it broke the protocol. It is
// what bounds the replies that a server queues, without ever stopping to read.
const ReadsLimit = 16 << 10

// Options of one end of a link; zero values mean the defaults of Defaults.
type Options struct {
	Hello      wire.Hello // what we say of ourselves
	Slabs      SlabSource // nil: READs are refused
	SendBuffer int        // bytes of queued frames and payloads before ErrFull (default 4 MiB)
	ReadsMax   int        // READs of ours in flight before ErrFull (default 4096, at most half of ReadsLimit)
	Heartbeat  mono.Dur   // between pings (default 200 ms)
	Silence    mono.Dur   // without any byte from the peer: ErrSilent (default 1 s)
	Handshake  mono.Dur   // limit of the exchange of hellos (default 2 s)
	Opening    mono.Dur   // on sockets: limit of the peer's first frame after the hellos; who only shakes hands holds its place no longer (default: none)
	PayloadMax int        // largest payload accepted (default wire.PayloadMax)
	LinksMax   int        // links that a listener holds; more are rejected (default 4096)

	// Refused is told of each peer that a listener turned away: garbage on the
	// port, another version, a wrong token. May be nil; called from several
	// goroutines; remote is the peer's address.
	Refused func(remote string, err error)
	// Clock is this end's clock; nil: mono.Now. Tests shift it.
	Clock func() mono.Time
}

// HeartbeatTo is the span between pings of a link to this peer. Two schedulers send each other heartbeats of
// their own: there, pings see to it only that a silent link ends.
func (o *Options) HeartbeatTo(peer wire.Hello) mono.Dur {
	if o.Hello.Role == wire.RoleScheduler && peer.Role == wire.RoleScheduler {
		return max(o.Heartbeat, o.Silence*2/5)
	}
	return o.Heartbeat
}

// Defaults fills the fields that were left zero.
func Defaults(o Options) Options {
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	span := func(p *mono.Dur, v mono.Dur) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.SendBuffer, 4<<20)
	def(&o.ReadsMax, 4096)
	def(&o.PayloadMax, wire.PayloadMax)
	def(&o.LinksMax, 4096)
	span(&o.Heartbeat, 200*mono.Millisecond)
	span(&o.Silence, mono.Second)
	span(&o.Handshake, 2*mono.Second)
	o.ReadsMax = min(o.ReadsMax, ReadsLimit/2) // the other side counts a reply until its mover looks again
	o.PayloadMax = min(o.PayloadMax, wire.PayloadMax)
	if o.Refused == nil {
		o.Refused = func(string, error) {}
	}
	if o.Clock == nil {
		o.Clock = mono.Now
	}
	return o
}

// Token is what Hello.Token holds for a cluster's token: all parts of a
// cluster are given the same one. No token is the zero value.
func Token(token string) [32]byte {
	if token == "" {
		return [32]byte{}
	}
	return sha256.Sum256([]byte(token))
}

// SplitAddress parts "tcp:host:port" into "tcp" and "host:port".
func SplitAddress(address string) (scheme, rest string, err error) {
	scheme, rest, ok := strings.Cut(address, ":")
	if !ok || (scheme != "tcp" && scheme != "inproc") {
		return "", "", fmt.Errorf("%w: address %q: write tcp:host:port or inproc:name", ErrUnreachable, address)
	}
	return scheme, rest, nil
}
