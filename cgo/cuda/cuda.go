//go:build cuda && cgo && linux && (amd64 || arm64)

package cuda

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -L${SRCDIR}/link -ldl
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"gorgonia.org/cu"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// Linked reports whether this binary has the door to the driver.
const Linked = true

// library is the driver. What it knows of devices belongs to the process, as CUDA's
// contexts do: New gives the same one each time.
type library struct {
	mu        sync.Mutex // Guards primaries.
	primaries map[int]*primary
	pinned    pins
}

var process = &library{primaries: map[int]*primary{}}

// New returns the door. The library is loaded with the first call.
func New() cuda.Driver { return process }

// load loads the driver, once in a process.
func load() error {
	l := C.sc_load()
	switch l.step {
	case C.SC_LOADED:
		return nil
	case C.SC_NO_LIBRARY:
		return &cuda.UnsupportedError{What: "no NVIDIA driver (" + C.GoString(&l.why[0]) + ")",
			Need: "install NVIDIA's driver, which brings libcuda.so.1; a container gets it from the host, by NVIDIA's container toolkit (--gpus all)"}
	case C.SC_TOO_OLD:
		return &cuda.UnsupportedError{What: "NVIDIA's driver is too old: libcuda.so.1 lacks " + C.GoString(&l.why[0]),
			Need: "install one of CUDA 11.4 or later; ONNX Runtime's libraries say what they need beyond that"}
	}
	code := int(l.code)
	return &cuda.UnsupportedError{What: "NVIDIA's driver finds nothing to use: cuInit: " + describe(code), Need: hintInit(code)}
}

// hintInit says what usually stands behind the errors of cuInit.
func hintInit(code int) string {
	switch code {
	case C.CUDA_ERROR_NO_DEVICE:
		return "is there a GPU (nvidia-smi -L)? CUDA_VISIBLE_DEVICES must name one that is there, and a container must be given it (--gpus all)"
	case C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, C.CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
		return "the kernel's module and libcuda.so.1 are of different versions: restart the host after an update of the driver"
	case C.CUDA_ERROR_SYSTEM_NOT_READY:
		return "is nvidia-fabricmanager running? GPUs on NVSwitch need it"
	case C.CUDA_ERROR_STUB_LIBRARY:
		return "this libcuda.so.1 is the toolkit's stub: take its folder out of LD_LIBRARY_PATH, and install NVIDIA's driver"
	case C.CUDA_ERROR_UNKNOWN:
		return "are /dev/nvidia* and /dev/nvidia-uvm there (nvidia-modprobe -u -c 0)? dmesg may say more"
	}
	return "nvidia-smi and dmesg may say more"
}

// Devices asks for all that there is.
func (l *library) Devices() ([]cuda.Info, error) {
	if err := load(); err != nil {
		return nil, err
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Errorf("counting CUDA devices: %s", describe(codeOf(err)))
	}
	all := make([]cuda.Info, n)
	for i := range all {
		if all[i], err = info(i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// info asks the driver, and sysfs.
func info(index int) (cuda.Info, error) {
	i := cuda.Info{Index: index, DriverVersion: cu.Version()}
	d, err := cu.GetDevice(index)
	if err == nil {
		i.Name, err = d.Name()
	}
	if err == nil {
		i.Memory, err = d.TotalMem()
	}
	var domain, bus, slot int
	for _, a := range []struct {
		what cu.DeviceAttribute
		to   *int
	}{{cu.ComputeCapabilityMajor, &i.Major}, {cu.ComputeCapabilityMinor, &i.Minor}, {cu.MultiprocessorCount, &i.Multiprocessors},
		{cu.PciDomainID, &domain}, {cu.PciBusID, &bus}, {cu.PciDeviceID, &slot}} {
		if err == nil {
			*a.to, err = d.Attribute(a.what)
		}
	}
	if err != nil {
		return i, fmt.Errorf("asking CUDA device %d what it is: %w", index, failure(codeOf(err)))
	}
	uuid := C.sc_uuid(C.CUdevice(d))
	if uuid.code != 0 {
		return i, fmt.Errorf("asking CUDA device %d for its UUID: %w", index, failure(int(uuid.code)))
	}
	// Either is enough: CUDA has named instances so, and told the two UUIDs apart, since there are any.
	i.UUID = formatUUID(uuid.mig != 0 || strings.Contains(i.Name, " MIG "), C.GoBytes(unsafePointer(&uuid.bytes[0]), 16))
	i.PCI = fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, slot)
	i.NUMANode = numaNode("/sys", i.PCI)
	return i, nil
}

func formatUUID(mig bool, b []byte) string {
	prefix := "GPU"
	if mig {
		prefix = "MIG"
	}
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, b[0:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

// numaNode is what the kernel says that a PCI device is near to; -1: it does not.
func numaNode(sys, pci string) int {
	text, err := os.ReadFile(filepath.Join(sys, "bus/pci/devices", pci, "numa_node"))
	if err != nil {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n < 0 {
		return -1
	}
	return n
}
