//go:build cgo && linux

package nvml

import (
	"fmt"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/symphony-serving/symphony/backend/telemetry"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	rescanEvery  = 5 * mono.Second
	devicesMax   = 256 // that anybody believes of a host, and instances of a GPU
	migEnabled   = nvml.DEVICE_MIG_ENABLE
	notInstance  = 0xffffffff // NVML's "no GPU instance"
	notAvailable = ^uint64(0) // NVML_VALUE_NOT_AVAILABLE
)

// opening guards go-nvml's own variables, which loading the library sets.
var opening sync.Mutex

// library implements telemetry.NVML.
type library struct {
	api nvml.Interface

	mu      sync.Mutex // Guards what follows
	has     map[string]bool
	handles map[string]*handle     // by UUID
	names   map[nvml.Device]string // UUIDs of GPUs: the driver does not tell that of a lost one
	scanned mono.Time

	events eventSet
}

// handle is a device's, and for a MIG instance also that of the GPU below it.
type handle struct {
	device telemetry.Device
	own    nvml.Device
	gpu    nvml.Device
}

// Open loads the library and connects to the driver.
func Open() (telemetry.NVML, error) { return open(nvml.New()) }

func open(api nvml.Interface) (telemetry.NVML, error) {
	opening.Lock()
	defer opening.Unlock()
	if ret := api.Init(); ret != nvml.SUCCESS {
		return nil, explain(ret)
	}
	return &library{api: api, has: map[string]bool{}, handles: map[string]*handle{}, names: map[nvml.Device]string{}, scanned: mono.Past}, nil
}

// explain says why the library cannot be used, and what to do.
func explain(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return &telemetry.UnsupportedError{What: "libnvidia-ml.so.1 is not here",
			Need: "install NVIDIA's driver; in a container, have the NVIDIA Container Toolkit pass it in (docker run --gpus all)"}
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return &telemetry.UnsupportedError{What: "NVIDIA's driver is not loaded", Need: "is there a GPU? modprobe nvidia; in a container, pass the devices in (docker run --gpus all)"}
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return &telemetry.UnsupportedError{What: "the driver that is loaded has another version than its library", Need: "reboot, or unload and load the driver's modules"}
	case nvml.ERROR_NO_PERMISSION:
		return &telemetry.UnsupportedError{What: "this user may not ask the driver", Need: "give it read and write access to /dev/nvidia*"}
	}
	return fmt.Errorf("NVML: %w; `nvidia-smi` may say more", ret)
}

// provides reports whether the library has a function.
func (l *library) provides(symbol string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok, known := l.has[symbol]
	if !known {
		ok = l.api.Extensions().LookupSymbol(symbol) == nil
		l.has[symbol] = ok
	}
	return ok
}

// Versions implements telemetry.NVML.
func (l *library) Versions() (telemetry.Versions, error) {
	var v telemetry.Versions
	var ret nvml.Return
	if v.Driver, ret = l.api.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return v, fmt.Errorf("NVML: the driver's version: %w", ret)
	}
	v.NVML, _ = l.api.SystemGetNVMLVersion()
	if l.provides("nvmlSystemGetCudaDriverVersion") {
		if n, ret := l.api.SystemGetCudaDriverVersion(); ret == nvml.SUCCESS {
			v.CUDA = fmt.Sprintf("%d.%d", n/1000, n%1000/10)
		}
	}
	return v, nil
}

// Devices implements telemetry.NVML.
func (l *library) Devices() ([]telemetry.Device, error) {
	n, ret := l.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("NVML: listing the GPUs: %w", ret)
	}
	var out []telemetry.Device
	for i := range min(n, devicesMax) {
		own, ret := l.api.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			out = append(out, telemetry.Device{Index: i, Err: failure(ret)})
			continue
		}
		gpu, err := l.describe(i, own)
		if err != nil {
			out = append(out, telemetry.Device{Index: i, Err: err})
			continue
		}
		out = append(append(out, gpu), l.instances(gpu, own)...)
	}
	return out, nil
}

// describe asks what does not change of a GPU, and keeps its handle.
func (l *library) describe(index int, own nvml.Device) (telemetry.Device, error) {
	d := telemetry.Device{Index: index}
	var ret nvml.Return
	if d.UUID, ret = own.GetUUID(); ret != nvml.SUCCESS {
		return d, failure(ret)
	}
	if d.Name, ret = own.GetName(); ret != nvml.SUCCESS {
		return d, failure(ret)
	}
	if pci, ret := own.GetPciInfo(); ret == nvml.SUCCESS {
		d.PCI = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	}
	if l.provides("nvmlDeviceGetMigMode") {
		mode, _, ret := own.GetMigMode()
		d.MIG = ret == nvml.SUCCESS && mode == migEnabled
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handles[d.UUID] = &handle{device: d, own: own, gpu: own}
	l.names[own] = d.UUID
	return d, nil
}

// instances are a GPU's MIG instances.
func (l *library) instances(gpu telemetry.Device, below nvml.Device) []telemetry.Device {
	if !gpu.MIG || !l.provides("nvmlDeviceGetMigDeviceHandleByIndex") || !l.provides("nvmlDeviceGetMaxMigDeviceCount") {
		return nil
	}
	n, ret := below.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var out []telemetry.Device
	for i := range min(n, devicesMax) {
		own, ret := below.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no instance has this index
		}
		d := telemetry.Device{Index: i, Parent: gpu.UUID, PCI: gpu.PCI, Instance: telemetry.AnyInstance}
		if d.UUID, ret = own.GetUUID(); ret != nvml.SUCCESS {
			continue
		}
		if d.Name, ret = own.GetName(); ret != nvml.SUCCESS {
			d.Name = gpu.Name + " MIG"
		}
		_, d.Profile, _ = strings.Cut(d.Name, " MIG ")
		if id, ret := own.GetGpuInstanceId(); ret == nvml.SUCCESS {
			d.Instance = id
		}
		out = append(out, d)
		l.mu.Lock()
		l.handles[d.UUID] = &handle{device: d, own: own, gpu: below}
		l.mu.Unlock()
	}
	return out
}

// find is a device's handle.
func (l *library) find(uuid string) (*handle, error) {
	l.mu.Lock()
	h := l.handles[uuid]
	scan := h == nil && mono.Now() >= l.scanned.Add(rescanEvery)
	if scan {
		l.scanned = mono.Now()
	}
	l.mu.Unlock()
	if scan {
		if _, err := l.Devices(); err != nil {
			return nil, err
		}
		l.mu.Lock()
		h = l.handles[uuid]
		l.mu.Unlock()
		if h != nil {
			l.events.add(l, h)
		}
	}
	if h == nil {
		return nil, fmt.Errorf("%w: NVML does not list %s", telemetry.ErrGone, uuid)
	}
	return h, nil
}

// forget has the device looked for anew.
func (l *library) forget(uuid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.handles, uuid)
	l.scanned = mono.Now()
}

// failure is a Return as an error.
func failure(ret nvml.Return) error {
	switch ret {
	case nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("%w: it has fallen off the bus, or the driver cannot reach it", telemetry.ErrGone)
	case nvml.ERROR_RESET_REQUIRED:
		return fmt.Errorf("%w: the driver wants it reset first", telemetry.ErrGone)
	case nvml.ERROR_NOT_FOUND, nvml.ERROR_GPU_NOT_FOUND:
		return fmt.Errorf("%w: the driver does not find it", telemetry.ErrGone)
	}
	return fmt.Errorf("NVML: %w", ret)
}

// Close implements telemetry.NVML.
func (l *library) Close() error {
	l.events.close()
	if ret := l.api.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("NVML: closing: %w", ret)
	}
	return nil
}
