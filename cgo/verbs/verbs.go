//go:build rdma && cgo && linux

package verbs

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#include <errno.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// Linked reports whether this binary has the door to libibverbs.
const Linked = true

// The sizes of what C reads as it lies in Go's memory. The offsets: layout_test.go.
var (
	_ [unsafe.Sizeof(rdma.SendWR{})]byte     = [C.sizeof_struct_sv_send_wr]byte{}
	_ [unsafe.Sizeof(rdma.RecvWR{})]byte     = [C.sizeof_struct_sv_recv_wr]byte{}
	_ [unsafe.Sizeof(rdma.Completion{})]byte = [C.sizeof_struct_sv_completion]byte{}
)

type library struct{}

// New returns the door. The library is loaded with the first call.
func New() rdma.Verbs { return library{} }

// load loads libibverbs, once in a process.
func load() error {
	why := make([]byte, 256)
	if C.sv_load((*C.char)(unsafe.Pointer(&why[0])), C.int(len(why))) != 0 {
		return &rdma.UnsupportedError{
			What: "RDMA verbs (" + C.GoString((*C.char)(unsafe.Pointer(&why[0]))) + ")",
			Need: "install libibverbs1 and ibverbs-providers (Debian, Ubuntu) or libibverbs and rdma-core (Fedora, RHEL)",
		}
	}
	return nil
}

// list calls f with each device, until f returns false.
func list(f func(dev *C.struct_ibv_device, name string) bool) error {
	if err := load(); err != nil {
		return err
	}
	var n C.int
	devices, errno := C.sv_device_list(&n)
	if devices == nil {
		if errno == syscall.ENOSYS || errno == syscall.EPERM || errno == syscall.ENOENT {
			return &rdma.UnsupportedError{
				What: fmt.Sprintf("RDMA devices (libibverbs: %v)", errno),
				Need: "it needs a kernel with RDMA: load ib_uverbs and the device's driver (mlx5_ib, irdma, rdma_rxe, ...), and, in a container, pass /dev/infiniband in",
			}
		}
		return fmt.Errorf("listing the RDMA devices: %w", errno)
	}
	defer C.sv_free_device_list(devices)
	for _, dev := range unsafe.Slice(devices, int(n)) {
		if !f(dev, C.GoString(C.sv_device_name(dev))) {
			break
		}
	}
	return nil
}

// Devices names what is there.
func (library) Devices() ([]string, error) {
	var names []string
	err := list(func(_ *C.struct_ibv_device, name string) bool {
		names = append(names, name)
		return true
	})
	return names, err
}

// Open opens a device and makes its protection domain.
func (library) Open(name string) (rdma.Device, error) {
	var d *device
	var failed error
	err := list(func(dev *C.struct_ibv_device, found string) bool {
		if found != name {
			return true
		}
		d, failed = open(dev, name)
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case failed != nil:
		return nil, failed
	case d == nil:
		return nil, fmt.Errorf("no RDMA device %q: `symphony rdma list` shows what is there", name)
	}
	return d, nil
}

func open(dev *C.struct_ibv_device, name string) (*device, error) {
	ctx, errno := C.sv_open(dev)
	if ctx == nil {
		return nil, fmt.Errorf("opening RDMA device %s: %w%s", name, errno, hintOpen(errno))
	}
	d := &device{name: name, ctx: ctx}
	if d.pd, errno = C.sv_alloc_pd(ctx); d.pd == nil {
		C.sv_close(ctx)
		return nil, fmt.Errorf("RDMA device %s: protection domain: %w", name, errno)
	}
	err := d.queryAttr()
	if err == nil {
		err = failure(C.sv_nonblocking(ctx.async_fd))
	}
	if err != nil {
		C.sv_dealloc_pd(d.pd)
		C.sv_close(ctx)
		return nil, fmt.Errorf("RDMA device %s: %w", name, err)
	}
	return d, nil
}

// hintOpen says what usually stands behind the errors of opening.
func hintOpen(err error) string {
	switch err {
	case syscall.EACCES, syscall.EPERM:
		return " (this user needs read and write access to /dev/infiniband/uverbs*)"
	case syscall.ENOENT, syscall.ENODEV, syscall.ENXIO:
		return " (is /dev/infiniband/uverbs* there? load ib_uverbs; in a container, pass the device in)"
	}
	return ""
}

// failure is an errno as an error; 0 is none.
func failure(errno C.int) error {
	if errno == 0 {
		return nil
	}
	return syscall.Errno(errno)
}
