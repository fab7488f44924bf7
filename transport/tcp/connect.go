package tcp

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// handshakeTrips are the round trips from the first packet to the last pong.
const handshakeTrips = 1 + 1 + syncRounds

var errUnanswered = errors.New("no answer")

// connect opens a connection, and asks again where nothing answers for a handshakeTrips-th of span: a host from
// which the first trip takes longer could not end the handshake in it. The kernel itself asks
// again after a second, so that a peer behind a network that has just healed would be found that
// late. How long it takes to look a name up does not count.
func connect(ctx context.Context, at string, span time.Duration) (net.Conn, error) {
	for { // until ctx ends, at which connectOnce fails at once
		c, err := connectOnce(ctx, at, span/handshakeTrips)
		if !errors.Is(err, errUnanswered) {
			return c, err
		}
	}
}

// connectOnce is one attempt.
func connectOnce(ctx context.Context, at string, patience time.Duration) (net.Conn, error) {
	short, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(time.Hour, func() { cancel(errUnanswered) })
	defer limit.Stop()
	d := net.Dialer{
		KeepAlive:     -1,           // heartbeats do that
		FallbackDelay: patience / 2, // a name's other family must have its turn
		ControlContext: func(context.Context, string, string, syscall.RawConn) error { // before each first packet
			limit.Reset(patience)
			return nil
		},
	}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(short, "tcp", at)
	if err != nil && context.Cause(short) == errUnanswered {
		return nil, errUnanswered
	}
	return c, err
}
