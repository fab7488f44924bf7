//go:build rdma && cgo && linux

package verbs

// #cgo noescape sv_poll
// #cgo nocallback sv_poll
// #cgo noescape sv_arm
// #cgo nocallback sv_arm
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// cq is a completion queue.
type cq struct {
	d  *device
	cq *C.struct_ibv_cq
	ch *channel // nil: no events

	qps   atomic.Int64 // Shared: open QPs that complete into it.
	guard guard
}

// NewCQ makes a completion queue; ch may be nil for one that is only polled.
func (d *device) NewCQ(depth int, ch rdma.Channel) (rdma.CQ, error) {
	if !d.guard.enter() {
		return nil, d.wrap("completion queue", errClosed)
	}
	defer d.guard.leave()
	q := &cq{d: d}
	var events *C.struct_ibv_comp_channel
	if ch != nil {
		c, ok := ch.(*channel)
		if !ok || c.d != d {
			return nil, d.wrap("completion queue", errors.New("its channel is another device's"))
		}
		if !c.guard.enter() {
			return nil, d.wrap("completion queue: its channel", errClosed)
		}
		defer c.guard.leave()
		q.ch, events = c, c.ch
	}
	var errno error
	if q.cq, errno = C.sv_create_cq(d.ctx, C.int(depth), events); q.cq == nil {
		return nil, d.wrap(fmt.Sprintf("completion queue of %d entries (the device allows %d)", depth, d.attr.CQDepth), errno)
	}
	d.cqs.Add(1)
	if q.ch != nil {
		q.ch.cqs.Add(1)
	}
	return q, nil
}

// Poll moves completions to dst, in one crossing.
func (q *cq) Poll(dst []rdma.Completion, turns int) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	if !q.guard.enter() {
		return 0, q.d.wrap("polling", errClosed)
	}
	r := C.sv_poll(q.cq, (*C.struct_sv_completion)(unsafe.Pointer(&dst[0])), C.int(len(dst)), C.int(turns))
	q.guard.leave()
	if r.err != 0 {
		return int(r.n), q.d.wrap("polling", failure(r.err))
	}
	return int(r.n), nil
}

// Arm asks for an event with the next entry.
func (q *cq) Arm() error {
	if !q.guard.enter() {
		return q.d.wrap("arming a completion queue", errClosed)
	}
	errno := C.sv_arm(q.cq)
	q.guard.leave()
	if errno != 0 {
		return q.d.wrap("arming a completion queue", failure(errno))
	}
	return nil
}

// Close ends the queue. QPs that complete into it must be closed before.
func (q *cq) Close() error {
	return q.guard.close(func() (bool, error) {
		if n := q.qps.Load(); n > 0 {
			return false, fmt.Errorf("RDMA device %s: closing a completion queue: %d queue pairs still use it: close them first", q.d.name, n)
		}
		if err := failure(C.sv_destroy_cq(q.cq)); err != nil {
			return false, q.d.wrap("closing a completion queue", err)
		}
		q.d.cqs.Add(-1)
		if q.ch != nil {
			q.ch.cqs.Add(-1)
		}
		return true, nil
	})
}
