package tcp_test

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
)

const local = "tcp:127.0.0.1:0"

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transporttest.Fixture { return transporttest.OverTCP(tcp.New()) })
}

func TestConformanceOfBusyPoll(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transporttest.Fixture {
		return transporttest.OverTCP(tcp.New().BusyPoll(50 * mono.Microsecond))
	})
}
