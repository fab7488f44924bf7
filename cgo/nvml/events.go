//go:build cgo && linux && (amd64 || arm64)

package nvml

import (
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/transport/mono"
)

// eventSet is where the driver puts XIDs: made with the first wait.
type eventSet struct {
	mu     sync.Mutex // Guards what follows, not the wait itself
	made   bool
	failed error
	set    nvml.EventSet
}

// open makes the set, and registers all GPUs that there are.
func (e *eventSet) open(l *library) (nvml.EventSet, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.made {
		return e.set, e.failed
	}
	e.made = true
	set, ret := l.api.EventSetCreate()
	if ret != nvml.SUCCESS {
		e.failed = fmt.Errorf("NVML: events: %w", ret)
		return nil, e.failed
	}
	e.set = set
	devices, err := l.Devices()
	if err != nil {
		e.failed = err
		return nil, err
	}
	registered := 0
	for _, d := range devices {
		if d.Err != nil || d.Parent != "" {
			continue
		}
		l.mu.Lock()
		h := l.handles[d.UUID]
		l.mu.Unlock()
		if h != nil && register(h.gpu, set) { // nil: a sample has found it lost meanwhile
			registered++
		}
	}
	if registered == 0 {
		e.failed = &telemetry.UnsupportedError{What: "no GPU here tells its errors (XIDs)", Need: "the kernel's log (dmesg) has them"}
	}
	return e.set, e.failed
}

func register(gpu nvml.Device, set nvml.EventSet) bool {
	types, ret := gpu.GetSupportedEventTypes()
	if ret != nvml.SUCCESS || types&nvml.EventTypeXidCriticalError == 0 {
		return false
	}
	return gpu.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS
}

// add registers a GPU that came back.
func (e *eventSet) add(l *library, h *handle) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.set != nil && e.failed == nil {
		register(h.gpu, e.set)
	}
}

func (e *eventSet) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.set != nil {
		e.set.Free()
		e.set, e.made, e.failed = nil, false, nil
	}
}

// WaitXID implements telemetry.NVML.
func (l *library) WaitXID(timeout mono.Dur) (telemetry.XID, error) {
	set, err := l.events.open(l)
	if err != nil {
		return telemetry.XID{}, err
	}
	e, ret := set.Wait(uint32(max(1, timeout/mono.Millisecond)))
	switch {
	case ret == nvml.ERROR_TIMEOUT, ret == nvml.SUCCESS && e.EventType != nvml.EventTypeXidCriticalError:
		return telemetry.XID{}, telemetry.ErrTimeout
	case ret != nvml.SUCCESS:
		return telemetry.XID{}, fmt.Errorf("NVML: waiting for XIDs: %w", failure(ret))
	}
	x := telemetry.XID{UUID: l.nameOf(e.Device), Instance: telemetry.AnyInstance, Code: e.EventData}
	if e.GpuInstanceId != notInstance {
		x.Instance = int(e.GpuInstanceId)
	}
	return x, nil
}

// nameOf is the UUID of a GPU, from memory: the driver may not tell that of a lost one.
func (l *library) nameOf(gpu nvml.Device) string {
	if gpu == nil {
		return ""
	}
	l.mu.Lock()
	name := l.names[gpu]
	l.mu.Unlock()
	if name == "" {
		name, _ = gpu.GetUUID()
	}
	return name
}
