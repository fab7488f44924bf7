//go:build cgo && linux

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
)

// reader asks one device value by value, and remembers how that went.
type reader struct {
	l     *library
	known int         // values that were had
	lost  nvml.Return // SUCCESS: the device answers
	first nvml.Return // why the first value was not had
}

// ask reads a value. What is not supported, or not for this user, is unknown.
func ask[T any](r *reader, symbol string, f func() (T, nvml.Return)) (m telemetry.Maybe[T]) {
	if r.lost != nvml.SUCCESS || !r.l.provides(symbol) {
		return m
	}
	v, ret := f()
	switch ret {
	case nvml.SUCCESS:
		r.known++
		return telemetry.Known(v)
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		r.lost = ret
	}
	if r.first == nvml.SUCCESS {
		r.first = ret
	}
	return m
}

// to changes a known value's type or unit.
func to[T, U any](m telemetry.Maybe[T], f func(T) U) (out telemetry.Maybe[U]) {
	if m.Known {
		out = telemetry.Known(f(m.Value))
	}
	return out
}

func integer(v uint32) int { return int(v) }

func watts(milliwatts uint32) float64 { return float64(milliwatts) / 1000 }

// outcome is the error of it all: the device is lost, or nothing could be had of it.
func (r *reader) outcome(uuid string) error {
	if r.lost != nvml.SUCCESS {
		r.l.forget(uuid)
		return failure(r.lost)
	}
	if r.known == 0 && r.first != nvml.SUCCESS {
		r.l.forget(uuid) // the handle of a MIG instance may have been taken away
		return failure(r.first)
	}
	return nil
}

// Sample implements telemetry.NVML.
func (l *library) Sample(uuid string) (telemetry.Sample, error) {
	h, err := l.find(uuid)
	if err != nil {
		return telemetry.Sample{}, err
	}
	r := &reader{l: l}
	var s telemetry.Sample
	r.use(&s, h)
	r.clocks(&s, h.gpu)
	r.errors(&s, h.gpu)
	s.PCIe = r.link(h.gpu)
	if err := r.outcome(uuid); err != nil {
		return telemetry.Sample{}, err
	}
	return s, nil
}

// use reads what a MIG instance has of its own, and how busy a GPU is.
func (r *reader) use(s *telemetry.Sample, h *handle) {
	memory := ask(r, "nvmlDeviceGetMemoryInfo", h.own.GetMemoryInfo)
	s.MemoryTotal = to(memory, func(m nvml.Memory) uint64 { return m.Total })
	s.MemoryUsed = to(memory, func(m nvml.Memory) uint64 { return m.Used })
	s.Processes = to(ask(r, "nvmlDeviceGetComputeRunningProcesses", h.own.GetComputeRunningProcesses), processes)
	busy := ask(r, "nvmlDeviceGetUtilizationRates", h.own.GetUtilizationRates)
	s.Busy = to(busy, func(u nvml.Utilization) int { return int(u.Gpu) })
	s.MemoryBusy = to(busy, func(u nvml.Utilization) int { return int(u.Memory) })
}

func processes(list []nvml.ProcessInfo) []telemetry.Process {
	var out []telemetry.Process
	for _, p := range list {
		q := telemetry.Process{PID: int(p.Pid)}
		if p.UsedGpuMemory != notAvailable {
			q.Memory = telemetry.Known(p.UsedGpuMemory)
		}
		out = append(out, q)
	}
	return out
}

func (r *reader) clocks(s *telemetry.Sample, d nvml.Device) {
	s.Power = to(ask(r, "nvmlDeviceGetPowerUsage", d.GetPowerUsage), watts)
	s.PowerLimit = to(ask(r, "nvmlDeviceGetEnforcedPowerLimit", d.GetEnforcedPowerLimit), watts)
	s.Temperature = to(ask(r, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return d.GetTemperature(nvml.TEMPERATURE_GPU) }), integer)
	for _, c := range []struct {
		kind     nvml.ClockType
		now, max *telemetry.Maybe[int]
	}{{nvml.CLOCK_SM, &s.SMClock, &s.SMClockMax}, {nvml.CLOCK_MEM, &s.MemoryClock, &s.MemoryClockMax}} {
		*c.now = to(ask(r, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return d.GetClockInfo(c.kind) }), integer)
		*c.max = to(ask(r, "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) { return d.GetMaxClockInfo(c.kind) }), integer)
	}
	reasons := ask(r, "nvmlDeviceGetCurrentClocksEventReasons", d.GetCurrentClocksEventReasons)
	if !reasons.Known { // the name before R535
		reasons = ask(r, "nvmlDeviceGetCurrentClocksThrottleReasons", d.GetCurrentClocksThrottleReasons)
	}
	s.Throttle = to(reasons, func(bits uint64) health.Reasons { return health.Reasons(bits) })
}

func (r *reader) errors(s *telemetry.Sample, d nvml.Device) {
	for _, c := range []struct {
		kind nvml.MemoryErrorType
		life nvml.EccCounterType
		at   *telemetry.Maybe[uint64]
	}{
		{nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.VOLATILE_ECC, &s.CorrectedVolatile},
		{nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC, &s.UncorrectedVolatile},
		{nvml.MEMORY_ERROR_TYPE_CORRECTED, nvml.AGGREGATE_ECC, &s.CorrectedAggregate},
		{nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.AGGREGATE_ECC, &s.UncorrectedAggregate},
	} {
		*c.at = ask(r, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) { return d.GetTotalEccErrors(c.kind, c.life) })
	}
	s.Remapped = ask(r, "nvmlDeviceGetRemappedRows", func() (m telemetry.Remap, ret nvml.Return) {
		m.Corrected, m.Uncorrected, m.Pending, m.Failed, ret = d.GetRemappedRows()
		return m, ret
	})
}

func (r *reader) link(d nvml.Device) telemetry.Maybe[telemetry.Link] {
	generation := ask(r, "nvmlDeviceGetCurrPcieLinkGeneration", d.GetCurrPcieLinkGeneration)
	width := ask(r, "nvmlDeviceGetCurrPcieLinkWidth", d.GetCurrPcieLinkWidth)
	generationMax := ask(r, "nvmlDeviceGetMaxPcieLinkGeneration", d.GetMaxPcieLinkGeneration)
	widthMax := ask(r, "nvmlDeviceGetMaxPcieLinkWidth", d.GetMaxPcieLinkWidth)
	replays := ask(r, "nvmlDeviceGetPcieReplayCounter", d.GetPcieReplayCounter)
	if !generation.Known || !width.Known || !generationMax.Known || !widthMax.Known {
		return telemetry.Maybe[telemetry.Link]{}
	}
	return telemetry.Known(telemetry.Link{Generation: generation.Value, Width: width.Value, GenerationMax: generationMax.Value, WidthMax: widthMax.Value,
		Replays: to(replays, func(n int) uint64 { return uint64(n) })})
}

// Throughput implements telemetry.NVML.
func (l *library) Throughput(uuid string) (telemetry.Throughput, error) {
	h, err := l.find(uuid)
	if err != nil {
		return telemetry.Throughput{}, err
	}
	r := &reader{l: l}
	rate := func(c nvml.PcieUtilCounter) telemetry.Maybe[uint64] {
		kilobytes := ask(r, "nvmlDeviceGetPcieThroughput", func() (uint32, nvml.Return) { return h.gpu.GetPcieThroughput(c) })
		return to(kilobytes, func(kb uint32) uint64 { return 1000 * uint64(kb) })
	}
	t := telemetry.Throughput{Sent: rate(nvml.PCIE_UTIL_TX_BYTES), Received: rate(nvml.PCIE_UTIL_RX_BYTES)}
	if r.lost != nvml.SUCCESS {
		return telemetry.Throughput{}, r.outcome(uuid)
	}
	return t, nil
}
