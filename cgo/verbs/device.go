//go:build rdma && cgo && linux

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/symphony-serving/symphony/rdma"
)

// errClosed: used after Close.
var errClosed = errors.New("used after Close")

// device is an opened device with its protection domain.
type device struct {
	// Immutable.
	name string
	ctx  *C.struct_ibv_context
	pd   *C.struct_ibv_pd
	attr rdma.DeviceAttr

	// Shared: what is open of it.
	regions, channels, cqs, qps atomic.Int64

	guard guard
}

// guard keeps calls and Close of an object apart.
type guard struct {
	mu     sync.RWMutex
	closed bool
}

// enter begins a call; leave ends it if it returned true.
func (g *guard) enter() bool {
	g.mu.RLock()
	if g.closed {
		g.mu.RUnlock()
		return false
	}
	return true
}

func (g *guard) leave() { g.mu.RUnlock() }

// close runs end when no call is under way. It says whether the object is gone: if
// not, it stays open. Closing what is closed is no error.
func (g *guard) close(end func() (gone bool, err error)) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	var err error
	g.closed, err = end()
	return err
}

func (d *device) Name() string          { return d.name }
func (d *device) Attr() rdma.DeviceAttr { return d.attr }

func (d *device) queryAttr() error {
	var a C.struct_ibv_device_attr
	if err := failure(C.sv_query_device(d.ctx, &a)); err != nil {
		return fmt.Errorf("asking for its limits: %w", err)
	}
	d.attr = rdma.DeviceAttr{
		QPs:          int(a.max_qp),
		QPDepth:      int(a.max_qp_wr),
		CQs:          int(a.max_cq),
		CQDepth:      int(a.max_cqe),
		Regions:      int(a.max_mr),
		RegionMax:    uint64(a.max_mr_size),
		SGEs:         int(a.max_sge),
		ReadsServed:  int(a.max_qp_rd_atom),
		ReadsStarted: int(a.max_qp_init_rd_atom),
		Firmware:     C.GoString(&a.fw_ver[0]),
		Ports:        int(a.phys_port_cnt),
	}
	return nil
}

// Port asks for the present state of a port, counted from 1.
func (d *device) Port(port int) (rdma.PortAttr, error) {
	if !d.guard.enter() {
		return rdma.PortAttr{}, d.wrap("port", errClosed)
	}
	defer d.guard.leave()
	if port < 1 || port > d.attr.Ports {
		return rdma.PortAttr{}, fmt.Errorf("RDMA device %s has ports 1 to %d, not %d", d.name, d.attr.Ports, port)
	}
	var p C.struct_sv_port
	if err := failure(C.sv_query_port(d.ctx, C.int(port), &p)); err != nil {
		return rdma.PortAttr{}, d.wrap(fmt.Sprintf("port %d", port), err)
	}
	return rdma.PortAttr{
		State:      rdma.PortState(p.state),
		MTU:        rdma.MTU(p.mtu),
		LID:        uint16(p.lid),
		Ethernet:   p.ethernet != 0,
		GIDs:       int(p.gids),
		MessageMax: uint32(p.message_max),
	}, nil
}

// GID reads an entry of a port's table; one that is empty is zero.
func (d *device) GID(port, index int) (rdma.GID, error) {
	var g rdma.GID
	if !d.guard.enter() {
		return g, d.wrap("GID", errClosed)
	}
	defer d.guard.leave()
	var raw [16]C.uint8_t
	err := failure(C.sv_query_gid(d.ctx, C.int(port), C.int(index), &raw[0]))
	if err == syscall.ENODATA { // newer kernels' word for an empty entry
		return g, nil
	}
	if err != nil {
		return g, d.wrap(fmt.Sprintf("GID %d of port %d", index, port), err)
	}
	for i, b := range raw {
		g[i] = byte(b)
	}
	return g, nil
}

// Async takes the events that have come.
func (d *device) Async(dst []rdma.Event) (int, error) {
	if !d.guard.enter() {
		return 0, d.wrap("events", errClosed)
	}
	defer d.guard.leave()
	var events [16]C.struct_sv_event
	n := min(len(dst), len(events))
	r := C.sv_async(d.ctx, &events[0], C.int(n))
	for i, e := range events[:r.n] {
		dst[i] = rdma.Event{Kind: eventKind(e.kind), QP: uint32(e.qp), Port: int(e.port)}
	}
	if err := failure(r.err); err != nil {
		return int(r.n), d.wrap("events", err)
	}
	return int(r.n), nil
}

func eventKind(kind C.uint32_t) rdma.EventKind {
	switch kind {
	case C.IBV_EVENT_QP_FATAL, C.IBV_EVENT_QP_REQ_ERR, C.IBV_EVENT_QP_ACCESS_ERR:
		return rdma.EventQPFatal
	case C.IBV_EVENT_CQ_ERR:
		return rdma.EventCQError
	case C.IBV_EVENT_PORT_ACTIVE:
		return rdma.EventPortUp
	case C.IBV_EVENT_PORT_ERR:
		return rdma.EventPortDown
	case C.IBV_EVENT_DEVICE_FATAL:
		return rdma.EventDeviceFatal
	}
	return rdma.EventOther
}

// Close ends the device. Fails while something made of it is open.
func (d *device) Close() error {
	return d.guard.close(func() (bool, error) {
		q, c, h, r := d.qps.Load(), d.cqs.Load(), d.channels.Load(), d.regions.Load()
		if q+c+h+r > 0 {
			return false, fmt.Errorf("closing RDMA device %s: %d queue pairs, %d completion queues, %d channels and %d regions are still open: close them first", d.name, q, c, h, r)
		}
		// Gone also with an error: a second attempt would free the domain twice.
		if err := errors.Join(failure(C.sv_dealloc_pd(d.pd)), failure(C.sv_close(d.ctx))); err != nil {
			return true, d.wrap("closing", err)
		}
		return true, nil
	})
}

// wrap says of which device, and what was tried.
func (d *device) wrap(what string, err error) error {
	return fmt.Errorf("RDMA device %s: %s: %w", d.name, what, err)
}
