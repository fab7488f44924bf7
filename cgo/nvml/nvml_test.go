//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/backend/telemetry/health"
	"github.com/symphony-serving/symphony/transport/mono"
)

// TestRealLibrary asks what is here: a GPU's values, or one line that says what is missing.
func TestRealLibrary(t *testing.T) {
	lib, err := Open()
	if err != nil {
		if os.Getenv("SYMPHONY_REQUIRE_GPU") == "1" {
			t.Fatal(err)
		}
		if !errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "\n") || len(err.Error()) < 40 {
			t.Errorf("without a driver: %v", err)
		}
		t.Skip(err)
	}
	defer func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	}()
	v, err := lib.Versions()
	devices, err2 := lib.Devices()
	if err != nil || err2 != nil || len(devices) == 0 {
		t.Fatal(v, err, devices, err2)
	}
	for _, d := range devices {
		s, err := lib.Sample(d.UUID)
		if err != nil || !s.MemoryTotal.Known || s.MemoryTotal.Value == 0 {
			t.Errorf("%v: %+v, %v", d, s, err)
		}
		t.Logf("%v: %+v", d, s)
	}
	if _, err := lib.WaitXID(10 * mono.Millisecond); !errors.Is(err, telemetry.ErrTimeout) && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

// host is go-nvml's mock of a host, where a GPU can be lost.
type host struct {
	api   *mock.Interface
	gpus  []*mock.Device
	lost  map[*mock.Device]bool
	event nvml.EventData
	wait  nvml.Return
}

func newHost(n int) *host {
	h := &host{lost: map[*mock.Device]bool{}, wait: nvml.ERROR_TIMEOUT}
	for i := range n {
		h.gpus = append(h.gpus, h.gpu(i))
	}
	set := &mock.EventSet{WaitFunc: func(uint32) (nvml.EventData, nvml.Return) { return h.event, h.wait }, FreeFunc: func() nvml.Return { return nvml.SUCCESS }}
	h.api = &mock.Interface{
		InitFunc:                       func() nvml.Return { return nvml.SUCCESS },
		ShutdownFunc:                   func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc:     func() (string, nvml.Return) { return "550.54.15", nvml.SUCCESS },
		SystemGetNVMLVersionFunc:       func() (string, nvml.Return) { return "12.550.54.15", nvml.SUCCESS },
		SystemGetCudaDriverVersionFunc: func() (int, nvml.Return) { return 12040, nvml.SUCCESS },
		EventSetCreateFunc:             func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS },
		DeviceGetCountFunc:             func() (int, nvml.Return) { return len(h.gpus), nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(i int) (nvml.Device, nvml.Return) {
			if h.lost[h.gpus[i]] {
				return nil, nvml.ERROR_GPU_IS_LOST
			}
			return h.gpus[i], nvml.SUCCESS
		},
	}
	return h
}

// gpu has all that an H100 has, each value another.
func (h *host) gpu(i int) *mock.Device {
	d := &mock.Device{}
	answer := func() nvml.Return {
		if h.lost[d] {
			return nvml.ERROR_GPU_IS_LOST
		}
		return nvml.SUCCESS
	}
	u32 := func(v uint32) func() (uint32, nvml.Return) {
		return func() (uint32, nvml.Return) { return v, answer() }
	}
	number := func(v int) func() (int, nvml.Return) { return func() (int, nvml.Return) { return v, answer() } }
	*d = mock.Device{
		GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprintf("GPU-%d", i), answer() },
		GetNameFunc: func() (string, nvml.Return) { return "NVIDIA H100 80GB HBM3", answer() },
		GetPciInfoFunc: func() (nvml.PciInfo, nvml.Return) {
			return nvml.PciInfo{Domain: 1, Bus: 0x3b + uint32(i)}, answer()
		},
		GetMigModeFunc:            func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_DISABLE, 0, answer() },
		GetMemoryInfoFunc:         func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 80, Used: 8, Free: 72}, answer() },
		GetUtilizationRatesFunc:   func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 97, Memory: 41}, answer() },
		GetPowerUsageFunc:         u32(512300),
		GetEnforcedPowerLimitFunc: u32(700000),
		GetTemperatureFunc:        func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, answer() },
		GetClockInfoFunc:          func(c nvml.ClockType) (uint32, nvml.Return) { return 1000 + uint32(c), answer() },
		GetMaxClockInfoFunc:       func(c nvml.ClockType) (uint32, nvml.Return) { return 2000 + uint32(c), answer() },
		GetCurrentClocksEventReasonsFunc: func() (uint64, nvml.Return) {
			return nvml.ClocksEventReasonSwPowerCap | nvml.ClocksThrottleReasonHwSlowdown, answer()
		},
		GetTotalEccErrorsFunc: func(e nvml.MemoryErrorType, c nvml.EccCounterType) (uint64, nvml.Return) {
			return 10*uint64(e) + uint64(c), answer()
		},
		GetRemappedRowsFunc:           func() (int, int, bool, bool, nvml.Return) { return 1, 2, true, false, answer() },
		GetCurrPcieLinkGenerationFunc: number(4),
		GetCurrPcieLinkWidthFunc:      number(8),
		GetMaxPcieLinkGenerationFunc:  number(5),
		GetMaxPcieLinkWidthFunc:       number(16),
		GetPcieReplayCounterFunc:      number(7),
		GetPcieThroughputFunc:         func(c nvml.PcieUtilCounter) (uint32, nvml.Return) { return 100 + uint32(c), answer() },
		GetSupportedEventTypesFunc:    func() (uint64, nvml.Return) { return nvml.EventTypeAll, answer() },
		RegisterEventsFunc:            func(uint64, nvml.EventSet) nvml.Return { return answer() },
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 4711, UsedGpuMemory: 3}, {Pid: 4712, UsedGpuMemory: notAvailable}}, answer()
		},
	}
	return d
}

func opened(t *testing.T, h *host) *library {
	t.Helper()
	lib, err := open(h.api)
	if err != nil {
		t.Fatal(err)
	}
	return lib.(*library)
}

// Each value arrives where it belongs, in its unit.
func TestSample(t *testing.T) {
	l := opened(t, newHost(2))
	if v, err := l.Versions(); err != nil || v != (telemetry.Versions{Driver: "550.54.15", CUDA: "12.4", NVML: "12.550.54.15"}) {
		t.Error(v, err)
	}
	devices, err := l.Devices()
	want := telemetry.Device{Index: 1, UUID: "GPU-1", Name: "NVIDIA H100 80GB HBM3", PCI: "0001:3c:00.0"}
	if err != nil || len(devices) != 2 || devices[1] != want {
		t.Errorf("%+v, %v", devices, err)
	}
	s, err := l.Sample("GPU-1")
	if err != nil {
		t.Fatal(err)
	}
	processes := s.Processes.Value
	s.Processes = telemetry.Maybe[[]telemetry.Process]{}
	expect := telemetry.Sample{MemoryTotal: telemetry.Known[uint64](80), MemoryUsed: telemetry.Known[uint64](8), Busy: telemetry.Known(97), MemoryBusy: telemetry.Known(41),
		Power: telemetry.Known(512.3), PowerLimit: telemetry.Known(700.0), Temperature: telemetry.Known(61),
		SMClock: telemetry.Known(1001), SMClockMax: telemetry.Known(2001), MemoryClock: telemetry.Known(1002), MemoryClockMax: telemetry.Known(2002),
		Throttle:          telemetry.Known(health.PowerCap | health.HWSlowdown),
		CorrectedVolatile: telemetry.Known[uint64](0), UncorrectedVolatile: telemetry.Known[uint64](10), CorrectedAggregate: telemetry.Known[uint64](1), UncorrectedAggregate: telemetry.Known[uint64](11),
		Remapped: telemetry.Known(telemetry.Remap{Corrected: 1, Uncorrected: 2, Pending: true}),
		PCIe:     telemetry.Known(telemetry.Link{Generation: 4, Width: 8, GenerationMax: 5, WidthMax: 16, Replays: telemetry.Known[uint64](7)})}
	if fmt.Sprint(s) != fmt.Sprint(expect) {
		t.Errorf("got\n%+v\nwant\n%+v", s, expect)
	}
	if fmt.Sprint(processes) != "[{4711 {3 true}} {4712 {0 false}}]" {
		t.Errorf("processes %v", processes)
	}
	if x, err := l.Throughput("GPU-0"); err != nil || x.Sent != telemetry.Known[uint64](100000) || x.Received != telemetry.Known[uint64](101000) {
		t.Error(x, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// The bits of package health are NVML's.
func TestReasons(t *testing.T) {
	for ours, theirs := range map[health.Reasons]uint64{health.Idle: nvml.ClocksEventReasonGpuIdle, health.ApplicationClocks: nvml.ClocksEventReasonApplicationsClocksSetting,
		health.PowerCap: nvml.ClocksEventReasonSwPowerCap, health.HWSlowdown: nvml.ClocksThrottleReasonHwSlowdown, health.SyncBoost: nvml.ClocksEventReasonSyncBoost,
		health.SWThermal: nvml.ClocksEventReasonSwThermalSlowdown, health.HWThermal: nvml.ClocksThrottleReasonHwThermalSlowdown,
		health.PowerBrake: nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, health.DisplayClocks: nvml.ClocksEventReasonDisplayClockSetting} {
		if uint64(ours) != theirs {
			t.Errorf("%v: %#x, NVML has %#x", ours, uint64(ours), theirs)
		}
	}
}

// What a device does not support is unknown, and so is what the library has no function for.
func TestUnknown(t *testing.T) {
	h := newHost(1)
	d := h.gpus[0]
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 1, nvml.ERROR_NOT_SUPPORTED }
	d.GetTotalEccErrorsFunc = func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) {
		return 1, nvml.ERROR_NOT_SUPPORTED
	}
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return nil, nvml.ERROR_NO_PERMISSION }
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 1, nvml.ERROR_FUNCTION_NOT_FOUND }
	d.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksEventReasonSwThermalSlowdown, nvml.SUCCESS }
	d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 1, 1, true, true, nvml.ERROR_FUNCTION_NOT_FOUND }
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 0, nvml.ERROR_FUNCTION_NOT_FOUND }
	h.api.SystemGetCudaDriverVersionFunc = func() (int, nvml.Return) { return 1, nvml.ERROR_FUNCTION_NOT_FOUND }
	l := opened(t, h)
	s, err := l.Sample("GPU-0")
	if err != nil || s.Power.Known || s.UncorrectedVolatile.Known || s.Processes.Known || s.Remapped.Known || !s.Temperature.Known || s.Throttle.Value != health.SWThermal {
		t.Errorf("%+v, %v", s, err)
	}
	if devices, err := l.Devices(); err != nil || len(devices) != 1 || devices[0].MIG {
		t.Error(devices, err)
	}
	if v, err := l.Versions(); err != nil || v.CUDA != "" {
		t.Error(v, err)
	}
}

// A device of which nothing can be had is an error, with the driver's reason.
func TestNothingKnown(t *testing.T) {
	h := newHost(1)
	l := opened(t, h)
	if _, err := l.Devices(); err != nil {
		t.Fatal(err)
	}
	const none = nvml.ERROR_FUNCTION_NOT_FOUND
	u32 := func() (uint32, nvml.Return) { return 0, none }
	number := func() (int, nvml.Return) { return 0, none }
	bits := func() (uint64, nvml.Return) { return 0, none }
	clock := func(nvml.ClockType) (uint32, nvml.Return) { return 0, none }
	*h.gpus[0] = mock.Device{
		GetComputeRunningProcessesFunc:   func() ([]nvml.ProcessInfo, nvml.Return) { return nil, none },
		GetUtilizationRatesFunc:          func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, none },
		GetMemoryInfoFunc:                func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN },
		GetPowerUsageFunc:                u32,
		GetEnforcedPowerLimitFunc:        u32,
		GetTemperatureFunc:               func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 0, none },
		GetClockInfoFunc:                 clock,
		GetMaxClockInfoFunc:              clock,
		GetCurrentClocksEventReasonsFunc: bits, GetCurrentClocksThrottleReasonsFunc: bits,
		GetTotalEccErrorsFunc:         func(nvml.MemoryErrorType, nvml.EccCounterType) (uint64, nvml.Return) { return 0, none },
		GetRemappedRowsFunc:           func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, none },
		GetCurrPcieLinkGenerationFunc: number,
		GetCurrPcieLinkWidthFunc:      number,
		GetMaxPcieLinkGenerationFunc:  number,
		GetMaxPcieLinkWidthFunc:       number,
		GetPcieReplayCounterFunc:      number,
	}
	if _, err := l.Sample("GPU-0"); err == nil || errors.Is(err, telemetry.ErrGone) || !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Error(err)
	}
}

// A lost GPU is gone; the others are not touched by that; it is found again.
func TestLost(t *testing.T) {
	h := newHost(2)
	l := opened(t, h)
	if _, err := l.Sample("GPU-0"); err != nil {
		t.Fatal(err)
	}
	h.lost[h.gpus[0]] = true
	for range 3 {
		if _, err := l.Sample("GPU-0"); !errors.Is(err, telemetry.ErrGone) {
			t.Errorf("a lost GPU: %v", err)
		}
		if _, err := l.Throughput("GPU-0"); !errors.Is(err, telemetry.ErrGone) {
			t.Errorf("a lost GPU: %v", err)
		}
		if _, err := l.Sample("GPU-1"); err != nil {
			t.Errorf("its neighbour: %v", err)
		}
	}
	if d, err := l.Devices(); err != nil || len(d) != 2 || !errors.Is(d[0].Err, telemetry.ErrGone) || d[1].Err != nil {
		t.Errorf("%+v, %v", d, err)
	}
	delete(h.lost, h.gpus[0])
	if _, err := l.Sample("GPU-0"); !errors.Is(err, telemetry.ErrGone) {
		t.Errorf("looked for again at once: %v", err)
	}
	l.scanned = mono.Past // as after rescanEvery
	if _, err := l.Sample("GPU-0"); err != nil {
		t.Errorf("it is back: %v", err)
	}
	l.scanned = mono.Past
	if _, err := l.Sample("GPU-9"); !errors.Is(err, telemetry.ErrGone) || !strings.Contains(err.Error(), "GPU-9") {
		t.Errorf("one that never was: %v", err)
	}
}

// An instance has memory and processes of its own, and the rest of its GPU.
func TestMIG(t *testing.T) {
	h := newHost(1)
	gpu := h.gpus[0]
	instance := &mock.Device{
		GetUUIDFunc:          func() (string, nvml.Return) { return "MIG-1", nvml.SUCCESS },
		GetNameFunc:          func() (string, nvml.Return) { return "NVIDIA H100 80GB HBM3 MIG 1g.10gb", nvml.SUCCESS },
		GetGpuInstanceIdFunc: func() (int, nvml.Return) { return 9, nvml.SUCCESS },
		GetMemoryInfoFunc:    func() (nvml.Memory, nvml.Return) { return nvml.Memory{Total: 10, Used: 1}, nvml.SUCCESS },
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) {
			return []nvml.ProcessInfo{{Pid: 5}}, nvml.SUCCESS
		},
		GetUtilizationRatesFunc: func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, nvml.ERROR_NOT_SUPPORTED },
	}
	gpu.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, 0, nvml.SUCCESS }
	gpu.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	gpu.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return instance, nvml.SUCCESS
	}
	l := opened(t, h)
	devices, err := l.Devices()
	want := telemetry.Device{Index: 2, UUID: "MIG-1", Name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", PCI: "0001:3b:00.0", Parent: "GPU-0", Instance: 9, Profile: "1g.10gb"}
	if err != nil || len(devices) != 2 || !devices[0].MIG || devices[1] != want {
		t.Fatalf("%+v, %v", devices, err)
	}
	s, err := l.Sample("MIG-1")
	if err != nil || s.MemoryTotal.Value != 10 || len(s.Processes.Value) != 1 || s.Busy.Known || s.Temperature.Value != 61 || s.UncorrectedVolatile.Value != 10 {
		t.Errorf("%+v, %v", s, err)
	}
	h.lost[gpu] = true
	if _, err := l.Sample("MIG-1"); !errors.Is(err, telemetry.ErrGone) {
		t.Errorf("its GPU is lost: %v", err)
	}
}

// XIDs are told with the GPU's UUID, also when the driver cannot say it any more.
func TestXID(t *testing.T) {
	h := newHost(2)
	l := opened(t, h)
	if _, err := l.WaitXID(mono.Millisecond); !errors.Is(err, telemetry.ErrTimeout) {
		t.Fatal(err)
	}
	h.wait = nvml.SUCCESS
	h.event = nvml.EventData{Device: h.gpus[1], EventType: nvml.EventTypeXidCriticalError, EventData: 79, GpuInstanceId: notInstance}
	h.lost[h.gpus[1]] = true
	if x, err := l.WaitXID(mono.Millisecond); err != nil || x != (telemetry.XID{UUID: "GPU-1", Instance: telemetry.AnyInstance, Code: 79}) {
		t.Errorf("%+v, %v", x, err)
	}
	h.event = nvml.EventData{Device: h.gpus[0], EventType: nvml.EventTypeXidCriticalError, EventData: 31, GpuInstanceId: 9}
	if x, err := l.WaitXID(mono.Millisecond); err != nil || x != (telemetry.XID{UUID: "GPU-0", Instance: 9, Code: 31}) {
		t.Errorf("%+v, %v", x, err)
	}
	h.event.EventType = nvml.EventTypePState
	if _, err := l.WaitXID(mono.Millisecond); !errors.Is(err, telemetry.ErrTimeout) {
		t.Errorf("an event of another kind: %v", err)
	}
	h.wait = nvml.ERROR_GPU_IS_LOST
	if _, err := l.WaitXID(mono.Millisecond); err == nil || errors.Is(err, telemetry.ErrTimeout) {
		t.Errorf("the wait failed: %v", err)
	}
}

// Where no GPU has such events, that is said once and for all.
// One that is lost while the others are registered is registered when it is back.
func TestXIDsOfTheOthers(t *testing.T) {
	h := newHost(2)
	l := opened(t, h)
	registered := 0
	h.gpus[1].RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return {
		registered++
		return nvml.SUCCESS
	}
	supported := h.gpus[0].GetSupportedEventTypesFunc
	h.gpus[0].GetSupportedEventTypesFunc = func() (uint64, nvml.Return) {
		l.forget("GPU-1") // as a sample does, which another goroutine takes
		return supported()
	}
	if _, err := l.WaitXID(mono.Millisecond); !errors.Is(err, telemetry.ErrTimeout) || registered != 0 {
		t.Errorf("%v, registered %d times", err, registered)
	}
	l.scanned = mono.Past // as after rescanEvery
	if _, err := l.Sample("GPU-1"); err != nil || registered != 1 {
		t.Errorf("%v, registered %d times", err, registered)
	}
}

func TestNoXIDs(t *testing.T) {
	h := newHost(1)
	h.gpus[0].GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	l := opened(t, h)
	for range 2 {
		if _, err := l.WaitXID(mono.Millisecond); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
	}
}

// Each way in which the library cannot be used says what to do.
func TestExplain(t *testing.T) {
	for ret, want := range map[nvml.Return]string{nvml.ERROR_DRIVER_NOT_LOADED: "modprobe nvidia",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH: "reboot", nvml.ERROR_NO_PERMISSION: "/dev/nvidia", nvml.ERROR_UNKNOWN: "nvidia-smi"} {
		h := newHost(0)
		h.api.InitFunc = func() nvml.Return { return ret }
		_, err := open(h.api)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, errors.ErrUnsupported) != (ret != nvml.ERROR_UNKNOWN) {
			t.Errorf("%d: %v", ret, err)
		}
	}
}
