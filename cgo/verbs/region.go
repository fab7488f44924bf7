//go:build rdma && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// region is registered memory.
type region struct {
	d          *device
	mr         *C.struct_ibv_mr
	lkey, rkey uint32
	guard      guard
}

// Register pins mem.
func (d *device) Register(mem []byte, access rdma.Access) (rdma.Region, error) {
	if len(mem) == 0 {
		return nil, d.wrap("registering memory", errors.New("it is empty"))
	}
	if !d.guard.enter() {
		return nil, d.wrap("registering memory", errClosed)
	}
	defer d.guard.leave()
	mr, errno := C.sv_reg_mr(d.pd, unsafe.Pointer(&mem[0]), C.size_t(len(mem)), C.int(access))
	if mr == nil {
		return nil, d.wrap(fmt.Sprintf("registering %d bytes", len(mem)), fmt.Errorf("%w%s", errno, hintRegister(errno, access)))
	}
	d.regions.Add(1)
	return &region{d: d, mr: mr, lkey: uint32(mr.lkey), rkey: uint32(mr.rkey)}, nil
}

// hintRegister says what usually stands behind the errors of registering.
func hintRegister(err error, access rdma.Access) string {
	switch {
	case err == syscall.ENOMEM || err == syscall.EPERM || err == syscall.EAGAIN:
		return " (raise the memlock limit: ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit)"
	case err == syscall.EINVAL && access&rdma.RemoteWrite != 0 && access&rdma.LocalWrite == 0:
		return " (remote write needs local write too)"
	case err == syscall.EFAULT:
		return " (the memory is not mapped, or not writable)"
	}
	return ""
}

func (r *region) LKey() uint32 { return r.lkey }
func (r *region) RKey() uint32 { return r.rkey }

// Close unpins the memory.
func (r *region) Close() error {
	return r.guard.close(func() (bool, error) {
		if err := failure(C.sv_dereg_mr(r.mr)); err != nil {
			return false, r.d.wrap("closing a region", err)
		}
		r.d.regions.Add(-1)
		return true, nil
	})
}
