package transporttest

import (
	"net"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
)

// OverTCP is the fixture of a transport whose links begin as TCP connections.
func OverTCP(n transport.Network) Fixture {
	return Fixture{
		Network: n,
		Address: "tcp:127.0.0.1:0",
		Raw: func(t *testing.T, address string) net.Conn {
			c, err := net.Dial("tcp", address[len("tcp:"):])
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		RawListen: func(t *testing.T) (string, net.Listener) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			return "tcp:" + l.Addr().String(), l
		},
		Cable: func(t *testing.T, address string) Cable { return NewProxy(t, address) },
		Delay: func(c Cable, d time.Duration) { c.(*Proxy).Throttle(d) },
	}
}
