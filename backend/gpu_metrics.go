package backend

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// gpuMetrics are read from the devices of pools of kind cuda when they are scraped. (What
// NVML knows of a GPU has the names of DCGM's exporter: backend/telemetry.)
type gpuMetrics struct {
	backend *Backend
	all     []gpuMetric
}

type gpuMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*gpu) float64
}

func newGPUMetrics(b *Backend) gpuMetrics {
	m := gpuMetrics{backend: b}
	add := func(name, help string, kind prometheus.ValueType, of func(*gpu) float64) {
		m.all = append(m.all, gpuMetric{prometheus.NewDesc("symphony_backend_gpu_"+name, help, []string{"pool", "gpu", "uuid"}, nil), kind, of})
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	const second = 1e9
	add("pinned_bytes", "Batch buffers that are pinned for the GPU.", gauge, func(g *gpu) float64 { return float64(g.pinned.Bytes()) })
	add("buffer_bytes", "Batch buffers for the GPU: pinned, and registered with the network's device, if it has one.", gauge, func(g *gpu) float64 {
		if g.buffers == nil {
			return 0
		}
		return float64(g.buffers.Bytes())
	})
	add("held_bytes", "Memory of the GPU that models and batches hold.", gauge, func(g *gpu) float64 { return float64(g.device.Stats().Memory.Load()) })
	add("budget_bytes", "Memory of the GPU that they may hold.", gauge, func(g *gpu) float64 { return float64(g.budget) })
	add("copied_seconds_total", "Time of copies to and from the GPU.", counter, func(g *gpu) float64 { return float64(g.device.Stats().Copied.Load()) / second })
	add("hidden_seconds_total", "The part of it during which a batch executed.", counter, func(g *gpu) float64 { return float64(g.device.Stats().Hidden.Load()) / second })
	add("lost_total", "How often the GPU was lost.", counter, func(g *gpu) float64 { return float64(g.device.Stats().Lost.Load()) })
	return m
}

// Describe implements prometheus.Collector.
func (m gpuMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, each := range m.all {
		out <- each.desc
	}
}

// Collect implements prometheus.Collector.
func (m gpuMetrics) Collect(out chan<- prometheus.Metric) {
	for _, p := range m.backend.pools {
		for _, g := range p.gpus {
			for _, each := range m.all {
				out <- prometheus.MustNewConstMetric(each.desc, each.kind, each.of(g), p.doc.DeviceType, strconv.Itoa(g.info.Index), g.info.UUID)
			}
		}
	}
}
