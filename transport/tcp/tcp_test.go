package tcp_test

import (
	"net"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
)

const local = "tcp:127.0.0.1:0"

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
		return transporttest.Fixture{
			Network: tcp.New(),
			Address: local,
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
			Cable: func(t *testing.T, address string) transporttest.Cable { return transporttest.NewProxy(t, address) },
			Delay: func(c transporttest.Cable, d time.Duration) { c.(*transporttest.Proxy).Throttle(d) },
		}
	})
}
