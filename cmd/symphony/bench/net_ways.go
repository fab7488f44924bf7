package bench

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/bench/netbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/cmd/symphony/parts"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
)

// netWays are the transports that a process measures or serves.
type netWays struct {
	ways     []netbench.Way
	nic      *rdma.NIC // nil: TCP alone
	network  *rdmalink.Network
	software bool  // the NIC is
	why      error // there is no NIC
}

// openWays finds the RDMA device. None is an error only where one was named.
func (c netCmd) openWays() (*netWays, error) {
	w := &netWays{why: errors.New("left out by --tcp-only")}
	if !c.TCPOnly {
		log := cli.Logger(config.Log{Level: "warn", Format: "auto"})
		rc := config.Default().RDMA
		rc.Device, rc.Poll = c.Device, c.Poll
		w.nic, w.why = parts.OpenNIC(rc, log)
		if w.why != nil && c.Device != "" {
			return nil, w.why
		}
		if w.nic != nil {
			w.software = isSoftware(w.nic.Name())
			// Require: a link without a lane would be TCP under RDMA's name. Attempt: under
			// emulation a lane takes its time.
			w.network = rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: w.nic, Require: true, Logger: log, PoolMax: int64(rc.Buffers), Attempt: 10 * mono.Second})
			w.ways = append(w.ways, netbench.Way{Name: netbench.RDMA, Network: w.network})
		}
	}
	w.ways = append(w.ways, netbench.Way{Name: netbench.TCP, Network: tcp.New()})
	return w, nil
}

func isSoftware(device string) bool {
	found, err := discover.List("/")
	if err != nil {
		return false
	}
	for _, d := range found {
		if d.Name == device {
			return d.Software
		}
	}
	return false
}

// close is the NIC's end. The links must have ended.
func (w *netWays) close() error {
	if w.nic == nil {
		return nil
	}
	return errors.Join(w.network.Close(), w.nic.Close())
}

// strayed says in words what did not go the way it was to go; "": nothing.
func (w *netWays) strayed() string {
	if w.network == nil {
		return ""
	}
	s := w.network.Stats()
	if s.ReadsTCP+s.ReadsMoved+s.HeapBuffers == 0 && s.LanesLost == 0 {
		return ""
	}
	return fmt.Sprintf("RDMA's figures hold some of TCP: %d lanes were lost, %d READs went over TCP, %d buffers were not registered", s.LanesLost, s.ReadsTCP, s.HeapBuffers)
}
