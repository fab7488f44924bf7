package scenario

import (
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// parseNetwork reads the network, and what the scheduler plans with: given as
// bound, or the 99.99th percentile of the delays (section 5.6).
//
//	none
//	constant:50us:10us  control messages take 50 us, each input of a batch 10 us
//	rdma, tcp           delays of control messages as in Figure 17
//
// For rdma and tcp inputs take no further time: what the figure measured are
// reads of inputs, many at a time, so its delays hold for an order together
// with the fetching that it starts.
func parseNetwork(text, bound string) (sim.Network, error) {
	var n sim.Network
	kind, args, _ := strings.Cut(text, ":")
	switch {
	case kind == "constant":
		d, ok := parseDelay(args)
		if !ok {
			return n, refuse("network", "%q, must be constant:CTRL:DATA with two spans from 0 to 1m, as in constant:50us:10us", text)
		}
		n.Ctrl, n.Data = sim.Constant(d.Ctrl), sim.Constant(d.Data)
	case text == "rdma":
		n.Ctrl = sim.RDMALike()
	case text == "tcp":
		n.Ctrl = sim.TCPLike()
	case text != "none":
		return n, refuse("network", "%q, must be none, constant:CTRL:DATA, rdma or tcp", text)
	}
	n.Bound = batching.Delay{Ctrl: n.Ctrl.P9999(), Data: n.Data.P9999()}
	if bound != "" {
		d, ok := parseDelay(bound)
		if !ok {
			return n, refuse("network-bound", "%q, must be CTRL:DATA with two spans from 0 to 1m, as in 50us:10us", bound)
		}
		n.Bound = d
	}
	return n, nil
}

// delayMax keeps delays far from overflow, and out of the land of mistakes.
const delayMax = 60 * mono.Second

// parseDelay reads CTRL:DATA.
func parseDelay(text string) (batching.Delay, bool) {
	var d batching.Delay
	ctrl, data, _ := strings.Cut(text, ":")
	for i, to := range []*mono.Dur{&d.Ctrl, &d.Data} {
		v, err := time.ParseDuration([]string{ctrl, data}[i])
		*to = mono.Dur(v)
		if err != nil || *to < 0 || *to > delayMax {
			return d, false
		}
	}
	return d, true
}

// delayText is what parseDelay reads.
func delayText(d batching.Delay) string { return d.Ctrl.Std().String() + ":" + d.Data.Std().String() }
