package telemetry_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/fakenvml"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// point is one series of a registry, now.
type point struct {
	value  float64
	labels map[string]string
}

// series is what a registry has, by name and UUID.
func series(t *testing.T, r prometheus.Gatherer) map[string]*point {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*point{}
	for _, f := range families {
		for _, m := range f.Metric {
			p := &point{value: m.GetGauge().GetValue() + m.GetCounter().GetValue(), labels: map[string]string{}} // it is one of them
			for _, l := range m.Label {
				p.labels[l.GetName()] = l.GetValue()
			}
			out[f.GetName()+" "+p.labels["UUID"]] = p
		}
	}
	return out
}

// The names, labels and units are those of DCGM's exporter.
func TestMetrics(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0), fakenvml.GPU(1))
	fake.SetThroughput(gpu0, telemetry.Throughput{Sent: telemetry.Known[uint64](5_000_000), Received: telemetry.Known[uint64](7_000_000)})
	fake.Set(gpu0, func(s *telemetry.Sample) {
		s.Busy, s.MemoryBusy, s.MemoryUsed = telemetry.Known(97), telemetry.Known(41), telemetry.Known[uint64](30<<30)
		s.Throttle, s.CorrectedVolatile = telemetry.Known(health.PowerCap), telemetry.Known[uint64](12)
		s.Remapped.Value = telemetry.Remap{Corrected: 1, Uncorrected: 2, Pending: true}
	})
	fake.Set(gpu1, func(s *telemetry.Sample) { // a GPU that can tell little
		s.Power, s.UncorrectedVolatile, s.MemoryUsed = telemetry.Maybe[float64]{}, telemetry.Maybe[uint64]{}, telemetry.Maybe[uint64]{}
	})
	r := start(t, fake, nil)
	r.sampled(gpu0, 3)
	r.sampled(gpu1, 3)
	fake.XID(gpu1, 94)
	r.await(gpu1, health.Out, "XID 94")
	got := series(t, r.registry)
	for name, want := range map[string]float64{"GPU_UTIL": 97, "MEM_COPY_UTIL": 41, "FB_USED": 30 << 10, "FB_FREE": 50 << 10, "FB_TOTAL": 80 << 10, "POWER_USAGE": 71.5,
		"ENFORCED_POWER_LIMIT": 700, "GPU_TEMP": 34, "SM_CLOCK": 1980, "MEM_CLOCK": 2619, "MAX_SM_CLOCK": 1980, "MAX_MEM_CLOCK": 2619, "XID_ERRORS": 0,
		"ECC_SBE_VOL_TOTAL": 12, "ECC_DBE_VOL_TOTAL": 0, "ECC_SBE_AGG_TOTAL": 3, "ECC_DBE_AGG_TOTAL": 0, "CLOCK_THROTTLE_REASONS": 4, "CLOCKS_EVENT_REASONS": 4,
		"PCIE_TX_THROUGHPUT": 5000, "PCIE_RX_THROUGHPUT": 7000, "PCIE_LINK_GEN": 5, "PCIE_LINK_WIDTH": 16, "PCIE_MAX_LINK_GEN": 5, "PCIE_MAX_LINK_WIDTH": 16, "PCIE_REPLAY_COUNTER": 0,
		"CORRECTABLE_REMAPPED_ROWS": 1, "UNCORRECTABLE_REMAPPED_ROWS": 2, "ROW_REMAP_FAILURE": 0, "ROW_REMAP_PENDING": 1} {
		m := got["DCGM_FI_DEV_"+name+" "+gpu0]
		if m == nil || m.value != want {
			t.Errorf("%s: %v, want %v", name, m, want)
		}
	}
	host, _ := os.Hostname()
	use := got["DCGM_FI_DEV_GPU_UTIL "+gpu1]
	for name, want := range map[string]string{"gpu": "1", "UUID": gpu1, "device": "nvidia1", "modelName": "NVIDIA H100 80GB HBM3", "pci_bus_id": "00000000:3C:00.0", "Hostname": host, "GPU_I_ID": ""} {
		if got := use.labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"POWER_USAGE", "ECC_DBE_VOL_TOTAL", "FB_USED", "FB_FREE"} {
		if m := got["DCGM_FI_DEV_"+name+" "+gpu1]; m != nil {
			t.Errorf("%s is unknown, but there: %v", name, m)
		}
	}
	xid := got["DCGM_FI_DEV_XID_ERRORS "+gpu1]
	if xid.value != 94 || xid.labels["err_code"] != "94" || !strings.Contains(xid.labels["err_msg"], "contained") {
		t.Error(xid)
	}
	if m := got["symphony_gpu_health "+gpu1]; m == nil || m.value != 2 {
		t.Error(m)
	}
	if m := got["symphony_gpu_xids_total "+gpu1]; m == nil || m.value != 1 || m.labels["xid"] != "94" {
		t.Error(m)
	}
}

// What is no longer true is not told: a GPU that is gone has no temperature.
func TestMetricsOfTheGone(t *testing.T) {
	fake := fakenvml.New(fakenvml.GPU(0))
	r := start(t, fake, nil)
	r.sampled(gpu0, 2)
	fake.Vanish(gpu0)
	r.await(gpu0, health.Out, "off the bus")
	got := series(t, r.registry)
	if got["DCGM_FI_DEV_GPU_TEMP "+gpu0] != nil || got["symphony_gpu_health "+gpu0].value != 2 {
		t.Errorf("%v", got)
	}
	if err := r.m.Close(); err != nil {
		t.Fatal(err)
	}
	if left := series(t, r.registry); len(left) != 0 {
		t.Errorf("after Close: %v", left)
	}
}

// An instance has its GPU's index, and its own id and profile.
func TestMetricsOfMIG(t *testing.T) {
	gpu := fakenvml.GPU(3)
	gpu.MIG = true
	a := fakenvml.Instance(gpu, 7)
	r := start(t, fakenvml.New(gpu, a), func(c *telemetry.Config) { c.Devices = []string{a.UUID} })
	r.sampled(a.UUID, 2)
	limit := time.Now().Add(soon)
	for series(t, r.registry)["DCGM_FI_DEV_FB_TOTAL "+a.UUID] == nil && time.Now().Before(limit) {
		time.Sleep(time.Millisecond)
	}
	m := series(t, r.registry)["DCGM_FI_DEV_FB_TOTAL "+a.UUID]
	if m == nil || m.labels["gpu"] != "3" || m.labels["GPU_I_ID"] != "7" || m.labels["GPU_I_PROFILE"] != "1g.10gb" {
		t.Error(m)
	}
}
