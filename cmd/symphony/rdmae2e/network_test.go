package rdmae2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The network of the device goes down: links go on over TCP, without a request that
// is lost, and come back to RDMA when the network does. So it is with TCP over other
// addresses, and over the network's own, as these stay this host's.
func TestNetworkDown(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "10.0.0.1"} {
		t.Run(host, func(t *testing.T) {
			need(t)
			if os.Getenv("SYMPHONY_RDMA_BIN") == "" {
				t.Skip("not in the VM: the network here is not ours to take down")
			}
			c := newCluster(t, "auto", emulated(t), emulatedPool)
			c.host = host
			c.start(modelName)
			c.links(c.port.backendMetrics, 2, 0)
			f := c.traffic()
			f.flow(t, "at first", 20)
			c.flap(f)
			c.end(f)
			c.stop()
		})
	}
}

// flap takes the network down and up again under load.
func (c *cluster) flap(f *traffic) {
	t, at := c.t, c.port.backendMetrics
	t.Helper()
	down := time.Now()
	c.networkDown()
	c.links(at, 0, 2)
	took := time.Since(down)
	f.flow(t, "over TCP", 20)
	up := time.Now()
	ip(t, "link", "set", "d0", "up")
	c.links(at, 2, 0)
	c.links(c.port.http, 2, 0)
	back := time.Since(up)
	f.flow(t, "over RDMA again", 20)
	a := f.account(down, time.Since(down))
	say("network down, TCP on %s: %v; over TCP after %v, up again, over RDMA after %v; lanes lost %g, READs moved to TCP %g, inputs over TCP %g", c.host, a, took.Round(time.Millisecond), back.Round(time.Millisecond),
		mustMetric(t, at, "symphony_rdma_lanes_total", `"lost"`), mustMetric(t, at, "symphony_rdma_reads_moved_total", ""), mustMetric(t, at, "symphony_input_reads_total", `"tcp"`))
	a.check(t)
	if took > hangMax || len(a.ends) != 1 || a.ends["200"] == 0 {
		t.Errorf("over TCP after %v; answers %v", took, a.ends)
	}
}

// networkDown takes the device's interface down, until the test's end at the latest.
func (c *cluster) networkDown() {
	c.t.Helper()
	c.t.Cleanup(func() { ip(c.t, "link", "set", "d0", "up") })
	ip(c.t, "link", "set", "d0", "down")
}

// ip runs iproute2's, as root.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
