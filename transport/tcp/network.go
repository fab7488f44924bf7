package tcp

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Network makes links over kernel sockets.
type Network struct {
	prober Prober   // Immutable; nil: none.
	poll   mono.Dur // Immutable once there are links: see BusyPoll.
}

// New returns the network. It holds no state.
func New() *Network { return &Network{} }

// BusyPoll makes links look at their sockets for so long before their goroutines
// park (see poller); 0: not at all. Call it before the first link.
func (n *Network) BusyPoll(span mono.Dur) *Network {
	n.poll = span
	return n
}

// Dial makes one attempt. See transport.Network.
func (n *Network) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (transport.Link, error) {
	o = transport.Defaults(o)
	at, err := hostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Handshake.Std())
	defer cancel()
	until, _ := ctx.Deadline()
	c, err := connect(ctx, at, time.Until(until))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w: is it started, and is this its address?", transport.ErrUnreachable, address, err)
	}
	conn := c.(*net.TCPConn)
	l := newLink(conn, newInbound(conn), o, h)
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = l.greet()
	if !stop() && err == nil {
		err = fmt.Errorf("%w: %w", transport.ErrUnreachable, ctx.Err())
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	l.in.live(o.PayloadMax, l.heart, l.out, newPoller(conn, n.poll))
	l.follow(n.prober)
	l.start()
	return l, nil
}

// Listen opens a port. See transport.Network.
func (n *Network) Listen(address string, o transport.Options, accept func(peer wire.Hello) (transport.Handler, error)) (transport.Listener, error) {
	at, err := hostPort(address)
	if err != nil {
		return nil, err
	}
	c := net.ListenConfig{KeepAlive: -1}
	c.SetMultipathTCP(false)
	ln, err := c.Listen(context.Background(), "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	s := &listener{o: transport.Defaults(o), ln: ln.(*net.TCPListener), accept: accept, prober: n.prober, poll: n.poll,
		links: map[*link]struct{}{}}
	s.running.Add(1)
	go s.run()
	return s, nil
}

func hostPort(address string) (string, error) {
	scheme, rest, err := transport.SplitAddress(address)
	if err != nil {
		return "", err
	}
	if scheme != "tcp" {
		return "", fmt.Errorf("%w: address %q is not one of TCP: write tcp:host:port", transport.ErrUnreachable, address)
	}
	if _, _, err := net.SplitHostPort(rest); err != nil {
		return "", fmt.Errorf("%w: address %q: %w: write tcp:host:port", transport.ErrUnreachable, address, err)
	}
	return rest, nil
}
