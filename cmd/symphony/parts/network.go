package parts

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/cgo/verbs"
	"github.com/symphony-serving/symphony/cmd/symphony/config"
	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/discover"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/netprobe"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
)

// newNetwork finds out what links can go over, says each in one line, and joins it.
// threads is how many of its own poll a device. An error means that the configuration
// demands what is not there.
func newNetwork(cfg config.Config, log zerolog.Logger, r prometheus.Registerer) (n transport.Network, threads int, err error) {
	nic, err := OpenNIC(cfg.RDMA, log)
	switch {
	case err == nil && nic != nil:
		threads = 1
		_, gid := nic.GID()
		log.Info().Str("device", nic.Name()).Int("gid", gid).Int("mtu", nic.MTU().Bytes()).Int("reads_at_once", nic.ReadsAtOnce()).
			Msg("RDMA: links to peers that have it, too, go over it")
	case cfg.RDMA.Mode == "always":
		return nil, 0, fmt.Errorf("rdma.mode is always, but: %w", err)
	case cfg.RDMA.Mode == "never":
		log.Info().Msg("RDMA: not used, as configured; links go over TCP")
	case errors.Is(err, discover.ErrNone):
		log.Info().AnErr("why", err).Msg("RDMA: none, links go over TCP")
	default: // there is something, or it is wanted: whoever runs this should know
		log.Warn().Str("rdma.device", cfg.RDMA.Device).AnErr("why", err).Msg("RDMA: not usable, links of this process go over TCP until it is started anew")
	}
	links := rdmalink.New(rdmalink.Config{TCP: newTCP(cfg.TCP, log), NIC: nic, Require: cfg.RDMA.Mode == "always", Logger: log, PoolMax: int64(cfg.RDMA.Buffers)})
	if err := r.Register(networkMetrics{links}); err != nil {
		return nil, 0, err
	}
	return transport.Mux{"tcp": links, "inproc": loopback.New()}, threads, nil
}

// OpenNIC opens the configured device; nil without an error: RDMA is not wanted.
func OpenNIC(c config.RDMA, log zerolog.Logger) (*rdma.NIC, error) {
	if c.Mode == "never" {
		return nil, nil
	}
	rc := rdma.Config{Device: c.Device, Port: c.Port, GIDIndex: c.GID, Spin: c.Spin, ReadsMax: int64(c.Reads), TrafficClass: uint8(c.TrafficClass),
		Poll: map[string]rdma.PollMode{"adaptive": rdma.PollAdaptive, "busy": rdma.PollBusy, "event": rdma.PollEvent}[c.Poll],
		Event: func(e rdma.Event) {
			log.Warn().Stringer("event", e.Kind).Int("port", e.Port).Uint32("qp", e.QP).Msg("RDMA: the device reports")
		}}
	if c.Spin == 0 && rc.Poll == rdma.PollAdaptive {
		rc.Poll = rdma.PollEvent
	}
	return discover.Open(verbs.New(), rc)
}

// newTCP is the TCP network, with the kernel's round-trip times where they can be had.
func newTCP(c config.TCP, log zerolog.Logger) transport.Network {
	if c.KernelRTT == "never" {
		log.Info().Msg("TCP: delays are measured by heartbeats alone, as configured")
		return tcp.New().BusyPoll(c.BusyPoll)
	}
	p, err := netprobe.Open(netprobe.Options{})
	if err != nil {
		log.Info().AnErr("why", err).Msg("TCP: delays are measured by heartbeats alone")
		return tcp.New().BusyPoll(c.BusyPoll)
	}
	log.Info().Msg("TCP: delays are measured by heartbeats and by the kernel's round-trip times (eBPF)")
	return tcp.NewProbed(p).BusyPoll(c.BusyPoll) // closed with the process
}

// networkMetrics collects what the links' network counts.
type networkMetrics struct{ n *rdmalink.Network }

func netDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("symphony_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (m networkMetrics) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, to) }

// Collect implements prometheus.Collector.
func (m networkMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.n.Stats()
	put := func(d *prometheus.Desc, t prometheus.ValueType, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, t, v, labels...)
	}
	links := netDesc("links", "Open links by the way that they take now.", "transport")
	put(links, prometheus.GaugeValue, float64(s.LinksRDMA), "rdma")
	put(links, prometheus.GaugeValue, float64(s.LinksTCP), "tcp")
	reads := netDesc("input_reads_total", "Inputs pulled from frontends.", "transport")
	put(reads, prometheus.CounterValue, float64(s.ReadsRDMA), "rdma")
	put(reads, prometheus.CounterValue, float64(s.ReadsTCP), "tcp")
	bytes := netDesc("input_read_bytes_total", "Bytes of inputs pulled from frontends.", "transport")
	put(bytes, prometheus.CounterValue, float64(s.ReadBytesRDMA), "rdma")
	put(bytes, prometheus.CounterValue, float64(s.ReadBytesTCP), "tcp")
	lanes := netDesc("rdma_lanes_total", "RDMA lanes of links, brought up and lost.", "what")
	put(lanes, prometheus.CounterValue, float64(s.LanesUp), "up")
	put(lanes, prometheus.CounterValue, float64(s.LanesLost), "lost")
	put(netDesc("rdma_reads_moved_total", "READs that a lost lane left to TCP."), prometheus.CounterValue, float64(s.ReadsMoved))
	put(netDesc("rdma_reads_stale_total", "READs whose slab held another input by then."), prometheus.CounterValue, float64(s.ReadsStale))
	messages := netDesc("rdma_messages_total", "Messages over RDMA.", "operation")
	put(messages, prometheus.CounterValue, float64(s.Sends), "send")
	put(messages, prometheus.CounterValue, float64(s.Writes), "write")
	put(netDesc("rdma_heap_buffers_total", "Batch buffers that the device does not reach: rdma.buffers is used up."), prometheus.CounterValue, float64(s.HeapBuffers))
}
