package rdmalink_test

import (
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
)

const local = "tcp:127.0.0.1:0"

// fake is a fabric with one device, and a Network over it.
type fake struct {
	fabric *fakeverbs.Fabric
	nic    *rdma.NIC
	net    *rdmalink.Network
}

// newFake's parts are closed, and counted, at the test's end.
func newFake(t *testing.T, c rdmalink.Config) *fake {
	t.Helper()
	f := &fake{fabric: fakeverbs.New(fakeverbs.Config{})}
	t.Cleanup(func() { // after all that is registered later
		if open := f.fabric.Open(); open != (fakeverbs.Counts{}) {
			t.Errorf("left open: %+v", open)
		}
	})
	f.nic, f.net = f.host(t, "a", c)
	return f
}

// host is one more host's device and Network. It is closed before the fabric is counted.
func (f *fake) host(t *testing.T, name string, c rdmalink.Config) (*rdma.NIC, *rdmalink.Network) {
	t.Helper()
	nic, err := rdma.Open(f.fabric.Host(name), rdma.Config{GIDIndex: -1})
	if err != nil {
		t.Fatal(err)
	}
	if c.NIC = nic; c.TCP == nil {
		c.TCP = tcp.New()
	}
	if os.Getenv("SYMPHONY_TEST_LOG") != "" {
		c.Logger = zerolog.New(os.Stderr).With().Timestamp().Str("host", name).Logger()
	}
	n := rdmalink.New(c)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := nic.Close(); err != nil {
			t.Error(err)
		}
	})
	return nic, n
}

// cable is TCP's proxy, and the fabric that stands still with it.
type cable struct {
	*transporttest.Proxy
	fabric *fakeverbs.Fabric
}

func (c cable) Freeze() {
	c.fabric.Freeze()
	c.Proxy.Freeze()
}

// fixture is OverTCP's, with a cable of its own; nil: without.
func fixture(n *rdmalink.Network, wire func(t *testing.T, address string) transporttest.Cable) transporttest.Fixture {
	f := transporttest.OverTCP(n)
	if wire != nil {
		f.Cable = wire
		f.Delay = func(c transporttest.Cable, d time.Duration) {
			c.(cable).fabric.SetDelay(mono.Dur(d))
			c.(cable).Throttle(d)
		}
	}
	return f
}

func TestConformance(t *testing.T) {
	for name, c := range map[string]rdmalink.Config{
		"default": {},
		// Everything wraps, and is cut into pieces, all the time.
		"small": {Buffers: 4, BufferSize: 1 << 10, Landing: 8 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			var sum rdmalink.Stats
			cases := 0
			transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
				f := newFake(t, c)
				cases++
				t.Cleanup(func() {
					f.fabric.Thaw()
					add(&sum, f.net.Stats())
				})
				return fixture(f.net, func(t *testing.T, address string) transporttest.Cable {
					return cable{transporttest.NewProxy(t, address), f.fabric}
				})
			})
			// The suite went over lanes: all that could, and little else.
			if cases < 30 {
				return // -run chose some
			}
			if sum.LanesUp < 30 || sum.ReadsRDMA < 1000 || sum.Sends < 1000 || sum.Writes < 50 || sum.LinksRDMA != 0 || sum.LinksTCP != 0 {
				t.Errorf("over the whole suite: %+v", sum)
			}
			t.Logf("over the whole suite: %+v", sum)
		})
	}
}

// add adds up what Stats count.
func add(sum *rdmalink.Stats, s rdmalink.Stats) {
	sum.LanesUp += s.LanesUp
	sum.LanesLost += s.LanesLost
	sum.LinksRDMA += s.LinksRDMA
	sum.LinksTCP += s.LinksTCP
	sum.ReadsRDMA += s.ReadsRDMA
	sum.ReadsTCP += s.ReadsTCP
	sum.ReadBytesRDMA += s.ReadBytesRDMA
	sum.ReadBytesTCP += s.ReadBytesTCP
	sum.ReadsStale += s.ReadsStale
	sum.ReadsMoved += s.ReadsMoved
	sum.Sends += s.Sends
	sum.Writes += s.Writes
	sum.HeapBuffers += s.HeapBuffers
}

// The suite again where no end has a device, and where one has.
func TestConformanceWithoutDevice(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Fixture {
		return fixture(rdmalink.New(rdmalink.Config{TCP: tcp.New()}), nil)
	})
}
