package telemetry

import (
	"os"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// metrics are the latest samples, in the names, labels and units of DCGM's exporter
// (NVIDIA/dcgm-exporter, etc/default-counters.csv and internal/pkg/rendermetrics), so that
// its dashboards and alerts hold. What a device cannot tell is left out, and so is what is
// no longer true. Where DCGM has no name it is symphony_gpu_*.
type metrics struct {
	m        *Monitor
	host     string
	register prometheus.Registerer
	columns  []column
	xid      *prometheus.Desc
	health   *prometheus.Desc
	xids     *prometheus.CounterVec
}

// labelNames are the exporter's. Those of MIG are empty, which is as if they were not
// there, for whole GPUs.
func labelNames(more ...string) []string {
	return append([]string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "GPU_I_PROFILE", "GPU_I_ID", "Hostname"}, more...)
}

// column is one metric.
type column struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(r *reading) Maybe[float64]
}

func newMetrics(m *Monitor, r prometheus.Registerer) (*metrics, error) {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	s := &metrics{m: m, host: host, register: r, columns: columns(),
		xid:    prometheus.NewDesc("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.", labelNames("err_code", "err_msg"), nil),
		health: prometheus.NewDesc("symphony_gpu_health", "Whether the GPU may serve: 0 healthy, 1 warn, 2 out of service.", labelNames(), nil),
		xids:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "symphony_gpu_xids_total", Help: "XID errors since the start."}, []string{"UUID", "xid"})}
	if r == nil {
		return s, nil
	}
	if err := r.Register(s); err != nil {
		return nil, err
	}
	if err := r.Register(s.xids); err != nil {
		r.Unregister(s)
		return nil, err
	}
	return s, nil
}

func (s *metrics) unregister() {
	if s.register != nil {
		s.register.Unregister(s)
		s.register.Unregister(s.xids)
	}
}

func (s *metrics) countXID(d *Device, code uint64) {
	s.xids.WithLabelValues(d.UUID, strconv.FormatUint(code, 10)).Inc()
}

// Describe implements prometheus.Collector.
func (s *metrics) Describe(to chan<- *prometheus.Desc) {
	for i := range s.columns {
		to <- s.columns[i].desc
	}
	to <- s.xid
	to <- s.health
}

// Collect implements prometheus.Collector.
func (s *metrics) Collect(to chan<- prometheus.Metric) {
	for _, u := range s.m.units {
		r := u.snapshot()
		labels := s.labels(u.device)
		to <- prometheus.MustNewConstMetric(s.health, prometheus.GaugeValue, float64(r.verdict.State), labels...)
		code, text := strconv.FormatUint(r.xid, 10), "No Error"
		if r.xid != 0 {
			text, _ = health.Explain(r.xid)
		}
		to <- prometheus.MustNewConstMetric(s.xid, prometheus.GaugeValue, float64(r.xid), append(s.labels(u.device), code, text)...)
		if !r.fresh {
			continue
		}
		for i := range s.columns {
			c := &s.columns[i]
			if v := c.value(&r); v.Known {
				to <- prometheus.MustNewConstMetric(c.desc, c.kind, v.Value, labels...)
			}
		}
	}
}

func (s *metrics) labels(d *Device) []string {
	index, instance := d.Index, ""
	if d.Parent != "" {
		instance = strconv.Itoa(d.Instance)
		for i := range s.m.all {
			if p := &s.m.all[i]; p.UUID == d.Parent {
				index = p.Index
			}
		}
	}
	return []string{strconv.Itoa(index), d.UUID, busID(d.PCI), "nvidia" + strconv.Itoa(index), d.Name, d.Profile, instance, s.host}
}

// busID writes "0000:3b:00.0" as NVML does: "00000000:3B:00.0".
func busID(pci string) string {
	domain, rest, ok := strings.Cut(pci, ":")
	if !ok {
		return pci
	}
	return strings.Repeat("0", max(0, 8-len(domain))) + strings.ToUpper(domain+":"+rest)
}

func columns() []column {
	var out []column
	add := func(kind prometheus.ValueType) func(name, help string, value func(r *reading) Maybe[float64]) {
		return func(name, help string, value func(r *reading) Maybe[float64]) {
			out = append(out, column{prometheus.NewDesc("DCGM_FI_DEV_"+name, help, labelNames(), nil), kind, value})
		}
	}
	gauge, counter := add(prometheus.GaugeValue), add(prometheus.CounterValue)
	addUse(gauge)
	addErrors(gauge, counter)
	addLink(gauge, counter)
	return out
}

type adder func(name, help string, value func(r *reading) Maybe[float64])

func addUse(gauge adder) {
	gauge("GPU_UTIL", "GPU utilization (in %).", func(r *reading) Maybe[float64] { return number(r.sample.Busy, 1) })
	gauge("MEM_COPY_UTIL", "Memory utilization (in %).", func(r *reading) Maybe[float64] { return number(r.sample.MemoryBusy, 1) })
	gauge("FB_USED", "Framebuffer memory used (in MiB).", func(r *reading) Maybe[float64] { return number(r.sample.MemoryUsed, 1.0/(1<<20)) })
	gauge("FB_FREE", "Framebuffer memory free (in MiB).", func(r *reading) Maybe[float64] {
		s := &r.sample
		free := s.MemoryTotal.Value - min(s.MemoryTotal.Value, s.MemoryUsed.Value)
		return number(Maybe[uint64]{free, s.MemoryTotal.Known && s.MemoryUsed.Known}, 1.0/(1<<20))
	})
	gauge("FB_TOTAL", "Total framebuffer memory (in MiB).", func(r *reading) Maybe[float64] { return number(r.sample.MemoryTotal, 1.0/(1<<20)) })
	gauge("POWER_USAGE", "Power draw (in W).", func(r *reading) Maybe[float64] { return r.sample.Power })
	gauge("ENFORCED_POWER_LIMIT", "Power limit that the driver enforces (in W).", func(r *reading) Maybe[float64] { return r.sample.PowerLimit })
	gauge("GPU_TEMP", "GPU temperature (in C).", func(r *reading) Maybe[float64] { return number(r.sample.Temperature, 1) })
	gauge("SM_CLOCK", "SM clock frequency (in MHz).", func(r *reading) Maybe[float64] { return number(r.sample.SMClock, 1) })
	gauge("MEM_CLOCK", "Memory clock frequency (in MHz).", func(r *reading) Maybe[float64] { return number(r.sample.MemoryClock, 1) })
	gauge("MAX_SM_CLOCK", "Maximum supported SM clock (in MHz).", func(r *reading) Maybe[float64] { return number(r.sample.SMClockMax, 1) })
	gauge("MAX_MEM_CLOCK", "Maximum supported memory clock (in MHz).", func(r *reading) Maybe[float64] { return number(r.sample.MemoryClockMax, 1) })
	// DCGM 4 calls them CLOCKS_EVENT_REASONS and keeps the old name as an alias.
	for _, name := range []string{"CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS"} {
		gauge(name, "Why the clocks are held down (bitmask of NVML's clocks event reasons).", func(r *reading) Maybe[float64] { return number(r.sample.Throttle, 1) })
	}
}

func addErrors(gauge, counter adder) {
	counter("ECC_SBE_VOL_TOTAL", "Total number of single-bit volatile ECC errors.", func(r *reading) Maybe[float64] { return number(r.sample.CorrectedVolatile, 1) })
	counter("ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.", func(r *reading) Maybe[float64] { return number(r.sample.UncorrectedVolatile, 1) })
	counter("ECC_SBE_AGG_TOTAL", "Total number of single-bit persistent ECC errors.", func(r *reading) Maybe[float64] { return number(r.sample.CorrectedAggregate, 1) })
	counter("ECC_DBE_AGG_TOTAL", "Total number of double-bit persistent ECC errors.", func(r *reading) Maybe[float64] { return number(r.sample.UncorrectedAggregate, 1) })
	rows := func(f func(x Remap) int) func(r *reading) Maybe[float64] {
		return func(r *reading) Maybe[float64] {
			return Maybe[float64]{float64(f(r.sample.Remapped.Value)), r.sample.Remapped.Known}
		}
	}
	counter("CORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for correctable errors.", rows(func(x Remap) int { return x.Corrected }))
	counter("UNCORRECTABLE_REMAPPED_ROWS", "Number of remapped rows for uncorrectable errors.", rows(func(x Remap) int { return x.Uncorrected }))
	gauge("ROW_REMAP_FAILURE", "Whether remapping of rows has failed.", rows(func(x Remap) int { return bit(x.Failed) }))
	gauge("ROW_REMAP_PENDING", "Whether remapping of rows is pending.", rows(func(x Remap) int { return bit(x.Pending) }))
}

// addLink adds the PCIe link. Throughputs are rates: the exporter's list has called them
// counters at times, which they never were.
func addLink(gauge, counter adder) {
	gauge("PCIE_TX_THROUGHPUT", "Rate of data transmitted over the PCIe link (in KB/s).", func(r *reading) Maybe[float64] { return number(r.throughput.Sent, 1e-3) })
	gauge("PCIE_RX_THROUGHPUT", "Rate of data received over the PCIe link (in KB/s).", func(r *reading) Maybe[float64] { return number(r.throughput.Received, 1e-3) })
	link := func(f func(l Link) int) func(r *reading) Maybe[float64] {
		return func(r *reading) Maybe[float64] {
			return Maybe[float64]{float64(f(r.sample.PCIe.Value)), r.sample.PCIe.Known}
		}
	}
	gauge("PCIE_LINK_GEN", "PCIe current link generation.", link(func(l Link) int { return l.Generation }))
	gauge("PCIE_LINK_WIDTH", "PCIe current link width.", link(func(l Link) int { return l.Width }))
	gauge("PCIE_MAX_LINK_GEN", "PCIe maximum link generation.", link(func(l Link) int { return l.GenerationMax }))
	gauge("PCIE_MAX_LINK_WIDTH", "PCIe maximum link width.", link(func(l Link) int { return l.WidthMax }))
	counter("PCIE_REPLAY_COUNTER", "Total number of PCIe retries.", func(r *reading) Maybe[float64] { return number(r.sample.PCIe.Value.Replays, 1) })
}

func number[T ~int | ~uint64](m Maybe[T], unit float64) Maybe[float64] {
	return Maybe[float64]{float64(m.Value) * unit, m.Known}
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
