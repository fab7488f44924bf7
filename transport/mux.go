package transport

import (
	"context"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Mux is a Network of networks, by the scheme before an address's colon.
type Mux map[string]Network

func (m Mux) pick(address string) (Network, error) {
	scheme, _, _ := strings.Cut(address, ":")
	if n, ok := m[scheme]; ok {
		return n, nil
	}
	return nil, fmt.Errorf("%w: address %q has no known scheme; write tcp:host:port or inproc:name", ErrUnreachable, address)
}

// Dial implements Network.
func (m Mux) Dial(ctx context.Context, address string, o Options, h Handler) (Link, error) {
	n, err := m.pick(address)
	if err != nil {
		return nil, err
	}
	return n.Dial(ctx, address, o, h)
}

// Listen implements Network.
func (m Mux) Listen(address string, o Options, accept func(wire.Hello) (Handler, error)) (Listener, error) {
	n, err := m.pick(address)
	if err != nil {
		return nil, err
	}
	return n.Listen(address, o, accept)
}
