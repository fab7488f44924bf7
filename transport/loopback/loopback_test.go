package loopback_test

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/transporttest"
)

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
		n := loopback.New()
		return transporttest.Fixture{Network: n, Address: "inproc:", Cable: func(t *testing.T, address string) transporttest.Cable {
			return cable{n, address}
		}}
	})
}

// cable makes a Network's faults a Cable.
type cable struct {
	n       *loopback.Network
	address string
}

func (c cable) Address() string { return c.address }
func (c cable) Freeze()         { c.n.Freeze(true) }
func (c cable) Cut()            { c.n.Break() }
