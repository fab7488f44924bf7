//go:build rdma && cgo && linux

package verbs

// #cgo noescape sv_post_send
// #cgo nocallback sv_post_send
// #cgo noescape sv_post_recv
// #cgo nocallback sv_post_recv
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/symphony-serving/symphony/rdma"
)

// qp is a queue pair of type RC.
type qp struct {
	d          *device
	qp         *C.struct_ibv_qp
	number     uint32
	send, recv *cq
	guard      guard
}

// NewQP makes a queue pair in state RESET.
func (d *device) NewQP(c rdma.QPConfig) (rdma.QP, error) {
	if !d.guard.enter() {
		return nil, d.wrap("queue pair", errClosed)
	}
	defer d.guard.leave()
	send, okSend := c.SendCQ.(*cq)
	recv, okRecv := c.RecvCQ.(*cq)
	if !okSend || !okRecv || send.d != d || recv.d != d {
		return nil, d.wrap("queue pair", errors.New("it needs completion queues of the same device"))
	}
	if !send.guard.enter() {
		return nil, d.wrap("queue pair: its send completion queue", errClosed)
	}
	defer send.guard.leave()
	if recv != send { // a second read lock of the same would wait for a Close that waits for the first
		if !recv.guard.enter() {
			return nil, d.wrap("queue pair: its receive completion queue", errClosed)
		}
		defer recv.guard.leave()
	}
	made, errno := C.sv_create_qp(d.pd, send.cq, recv.cq, C.int(c.SendDepth), C.int(c.RecvDepth), C.int(c.SGEs))
	if made == nil {
		return nil, d.wrap(fmt.Sprintf("queue pair of depths %d and %d with %d SGEs (the device allows %d, and %d SGEs)",
			c.SendDepth, c.RecvDepth, c.SGEs, d.attr.QPDepth, d.attr.SGEs), errno)
	}
	q := &qp{d: d, qp: made, number: uint32(made.qp_num), send: send, recv: recv}
	q.count(1)
	return q, nil
}

// count adds to what is open.
func (q *qp) count(n int64) {
	q.d.qps.Add(n)
	q.send.qps.Add(n)
	if q.recv != q.send {
		q.recv.qps.Add(n)
	}
}

func (q *qp) Number() uint32 { return q.number }

// modify runs one change of state.
func (q *qp) modify(to string, change func() C.int) error {
	if !q.guard.enter() {
		return q.wrap(to, errClosed)
	}
	defer q.guard.leave()
	if err := failure(change()); err != nil {
		return q.wrap(to, err)
	}
	return nil
}

// Init moves RESET to INIT.
func (q *qp) Init(port int, access rdma.Access) error {
	return q.modify("to INIT", func() C.int { return C.sv_qp_init(q.qp, C.int(port), C.int(access)) })
}

// ReadyToReceive moves INIT to RTR.
func (q *qp) ReadyToReceive(c rdma.Peering) error {
	p := C.struct_sv_peering{
		qpn:       C.uint32_t(c.QPN),
		psn:       C.uint32_t(c.PSN & 0xffffff),
		lid:       C.uint16_t(c.LID),
		mtu:       C.uint8_t(c.MTU),
		port:      C.uint8_t(c.Port),
		gid_index: C.uint8_t(c.GIDIndex),
		max_reads: C.uint8_t(c.MaxReads),
		min_rnr:   C.uint8_t(c.MinRNR),
		tclass:    C.uint8_t(c.Class),
	}
	for i, b := range c.GID {
		p.gid[i] = C.uint8_t(b)
	}
	if c.GID != (rdma.GID{}) || c.LID == 0 {
		p.global = 1
	}
	return q.modify("to RTR", func() C.int { return C.sv_qp_rtr(q.qp, &p) })
}

// ReadyToSend moves RTR to RTS.
func (q *qp) ReadyToSend(c rdma.Sending) error {
	s := C.struct_sv_sending{
		psn:       C.uint32_t(c.PSN & 0xffffff),
		timeout:   C.uint8_t(c.Timeout),
		retry:     C.uint8_t(c.Retry),
		rnr_retry: C.uint8_t(c.RNRRetry),
		max_reads: C.uint8_t(c.MaxReads),
	}
	return q.modify("to RTS", func() C.int { return C.sv_qp_rts(q.qp, &s) })
}

// Fail moves the QP to ERR.
func (q *qp) Fail() error {
	return q.modify("to ERR", func() C.int { return C.sv_qp_error(q.qp) })
}

// PostSend posts in order, in one crossing.
func (q *qp) PostSend(wrs []rdma.SendWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	if !q.guard.enter() {
		return 0, q.wrap("posting sends", errClosed)
	}
	r := C.sv_post_send(q.qp, (*C.struct_sv_send_wr)(unsafe.Pointer(&wrs[0])), C.int(len(wrs)))
	q.guard.leave()
	if r.err != 0 {
		return int(r.n), q.wrap("posting sends", failure(r.err))
	}
	return int(r.n), nil
}

// PostRecv posts in order, in one crossing.
func (q *qp) PostRecv(wrs []rdma.RecvWR) (int, error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	if !q.guard.enter() {
		return 0, q.wrap("posting receives", errClosed)
	}
	r := C.sv_post_recv(q.qp, (*C.struct_sv_recv_wr)(unsafe.Pointer(&wrs[0])), C.int(len(wrs)))
	q.guard.leave()
	if r.err != 0 {
		return int(r.n), q.wrap("posting receives", failure(r.err))
	}
	return int(r.n), nil
}

// Close ends the QP. What was posted and has not completed never will.
func (q *qp) Close() error {
	return q.guard.close(func() (bool, error) {
		if err := failure(C.sv_destroy_qp(q.qp)); err != nil {
			return false, q.wrap("closing", err)
		}
		q.count(-1)
		return true, nil
	})
}

func (q *qp) wrap(what string, err error) error {
	return fmt.Errorf("RDMA device %s: queue pair %d: %s: %w", q.d.name, q.number, what, err)
}
