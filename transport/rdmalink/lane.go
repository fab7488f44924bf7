package rdmalink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lane is a queue pair beside the TCP link, with its memory.
//
//	memory:  slots (messages on their way) | receives | slab headers READ
//	landing: what the peer WRITEs into; the only memory here that it may change
type lane struct {
	// Immutable after connect.
	l          *link
	generation uint32
	conn       *rdma.Conn
	peer       wire.LaneOffer
	memory     []byte
	landing    []byte
	lkey       uint32
	regions    []rdma.Region
	nonce      uint64

	// Guarded by the link's tx.mu.
	messages    []message // ring: posted and not known to have arrived
	head, used  int
	sent        uint32 // messages posted in all: the peer's receives used
	landed      uint32 // position behind the last WRITE in the peer's landing zone
	reported    uint32 // of consumed, in the last message
	reportedEnd uint32 // of freed
	unsignalled int

	// What the peer reported. Written by the polling thread.
	peerConsumed, peerFreed atomic.Uint32

	// Guarded by the link's rx.mu.
	repost []rdma.RecvWR
	freed  uint32 // position in our landing zone that is consumed
	// Receives posted again in all; written under rx.mu.
	consumed atomic.Uint32
	freedNow atomic.Uint32 // freed, as of the last repost

	flights  flights // of READs; guards itself
	probed   chan error
	released []transport.Part // payloads to let go at the turn's end; owned by the polling thread
	moved    int              // bytes that have left the outbox, likewise
}

// Kinds of work requests, in bits 24 and up of their IDs.
const (
	idMessage uint32 = 1 << 24
	idData    uint32 = 2 << 24
	idHeader  uint32 = 3 << 24
	idProbe   uint32 = 4 << 24
	idKind    uint32 = 0xff << 24
)

// messageHeader is in front of every message:
//
//	0  sequence uint64  in the stream; 0: a message of credits alone
//	8  consumed uint32  receives of the lane that its sender has posted again, in all
//	12 freed    uint32  position in its landing zone up to which it is done
const messageHeader = 16

// newLane makes one that is not connected.
func newLane(l *link, generation uint32) (*lane, error) {
	nic, c := l.n.cfg.NIC, &l.n.cfg
	reads := max(1, min(nic.ReadsAtOnce()/2, flightsMax)) // bytes and header: two READs each
	ln := &lane{l: l, generation: generation, messages: make([]message, c.Buffers), nonce: rand.Uint64(), probed: make(chan error, 1)}
	ln.flights.init(ln, reads)
	var err error
	if ln.memory, err = l.n.Map(2*c.Buffers*c.BufferSize + reads*wire.SlabHeaderSize); err != nil {
		return nil, err
	}
	if ln.landing, err = l.n.Map(c.Landing); err != nil {
		ln.unmap()
		return nil, err
	}
	for at := 0; at < min(probeMax, len(ln.landing)); at += 8 {
		binary.LittleEndian.PutUint64(ln.landing[at:], ln.nonce+uint64(at))
	}
	if err = ln.register(nic); err == nil {
		ln.conn, err = nic.NewConn(rdma.ConnConfig{SendDepth: c.Buffers + ln.flights.depth + 1, RecvDepth: c.Buffers,
			Access: rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead}, (*laneHandler)(ln))
	}
	if err == nil {
		var receives []rdma.RecvWR
		for i := range uint32(c.Buffers) {
			receives = append(receives, rdma.RecvWR{ID: uint64(i), SGE: ln.receiveSGE(i)})
		}
		err = ln.conn.PostReceives(receives)
	}
	if err != nil {
		return nil, errors.Join(err, ln.close(), ln.unmap())
	}
	return ln, nil
}

// register makes both pieces of memory known to the device. The landing zone can
// be READ, too: the peer's probe does.
func (ln *lane) register(nic *rdma.NIC) error {
	for _, m := range []struct {
		mem    []byte
		access rdma.Access
	}{{ln.memory, rdma.LocalWrite}, {ln.landing, rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead}} {
		r, err := nic.Register(m.mem, m.access)
		if err != nil {
			return err
		}
		ln.regions = append(ln.regions, r)
	}
	ln.lkey = ln.regions[0].LKey()
	return nil
}

// close ends the queue pair and the registrations: no DMA after. The memory stays:
// it holds messages that may have to go again.
func (ln *lane) close() error {
	var errs []error
	if ln.conn != nil {
		errs = append(errs, ln.conn.Close())
	}
	for _, r := range ln.regions {
		errs = append(errs, r.Close())
	}
	ln.regions = nil
	return errors.Join(errs...)
}

func (ln *lane) unmap() error {
	var errs []error
	for _, m := range []*[]byte{&ln.memory, &ln.landing} {
		if *m != nil {
			errs = append(errs, ln.l.n.Unmap(*m))
			*m = nil
		}
	}
	return errors.Join(errs...)
}

// offer is what to tell the peer.
func (ln *lane) offer() wire.LaneOffer {
	e, c := ln.conn.Local(), &ln.l.n.cfg
	m := wire.LaneOffer{Generation: ln.generation, QPN: e.QPN, PSN: e.PSN, GID: e.GID, LID: e.LID, MTU: uint8(e.MTU), MaxReads: e.MaxReads,
		Buffers: uint16(c.Buffers), BufferSize: uint32(c.BufferSize), Nonce: ln.nonce,
		Landing: wire.RemoteMemory{Address: rdma.AddressOf(ln.landing), Size: uint64(len(ln.landing)), RKey: ln.regions[1].RKey()}}
	m.Slabs, m.Headers = ln.l.n.holding(ln.l.o.Slabs)
	return m
}

// connect joins the queue pair with the peer's.
func (ln *lane) connect(peer wire.LaneOffer) error {
	ln.peer = peer
	ln.flights.bound(int(peer.MaxReads) / 2)
	return ln.conn.Connect(rdma.Endpoint{QPN: peer.QPN, PSN: peer.PSN, GID: peer.GID, LID: peer.LID, MTU: rdma.MTU(peer.MTU), MaxReads: peer.MaxReads})
}

// probeMax is how much the probe READs: several packets of the largest MTU, since a
// switch with a smaller one lets small ones pass.
const probeMax = 16 << 10

// probeInto is where the probe READ goes: the slots, which hold nothing yet.
func (ln *lane) probeInto() []byte {
	c := &ln.l.n.cfg
	return ln.memory[:min(probeMax, int(ln.peer.Landing.Size), c.Buffers*c.BufferSize)]
}

// probe starts the READ that shows whether the way to the peer's memory is open;
// the outcome comes on probed.
func (ln *lane) probe() error {
	into := ln.probeInto()
	wr := rdma.SendWR{ID: uint64(idProbe), Op: rdma.OpRead, Remote: ln.peer.Landing.Address, RKey: ln.peer.Landing.RKey,
		SGEs: [2]rdma.SGE{{Addr: rdma.AddressOf(into), Length: uint32(len(into)), LKey: ln.lkey}}, NumSGE: 1, Signaled: true}
	return ln.conn.Post([]rdma.SendWR{wr})
}

func (ln *lane) probeEnded(err error) {
	into := ln.probeInto()
	for at := 0; at < len(into) && err == nil; at += 8 {
		if got := binary.LittleEndian.Uint64(into[at:]); got != ln.peer.Nonce+uint64(at) {
			err = fmt.Errorf("the probe READ brought %#x at %d instead of %#x", got, at, ln.peer.Nonce+uint64(at))
		}
	}
	ln.probed <- err
}

// slot is the memory of a message; what fits the peer's receives.
func (ln *lane) slot(i int) []byte {
	size := ln.l.n.cfg.BufferSize
	return ln.memory[i*size:][:min(size, int(ln.peer.BufferSize))]
}

// receive is the memory of a posted receive.
func (ln *lane) receive(i uint32) []byte {
	c := &ln.l.n.cfg
	return ln.memory[(c.Buffers+int(i))*c.BufferSize:][:c.BufferSize]
}

func (ln *lane) receiveSGE(i uint32) rdma.SGE {
	b := ln.receive(i)
	return rdma.SGE{Addr: rdma.AddressOf(b), Length: uint32(len(b)), LKey: ln.lkey}
}

// header is where the slab header of a READ in flight goes.
func (ln *lane) header(flight int) []byte {
	c := &ln.l.n.cfg
	return ln.memory[2*c.Buffers*c.BufferSize+flight*wire.SlabHeaderSize:][:wire.SlabHeaderSize]
}

// laneHandler is the lane as handler of its Conn. On the polling thread.
type laneHandler lane

// Sent implements rdma.Handler.
func (h *laneHandler) Sent(id uint32, err error) {
	ln := (*lane)(h)
	switch id & idKind {
	case idMessage:
		if err == nil { // else it may have to go again: see resend
			ln.arrived()
		}
	case idData, idHeader:
		ln.flights.sent(id, err)
	case idProbe:
		ln.probeEnded(err)
	}
}

// Received implements rdma.Handler.
func (h *laneHandler) Received(id uint32, n int, imm uint32, written bool, err error) {
	ln := (*lane)(h)
	if err != nil {
		return
	}
	a := arrival{lane: ln, buffer: id}
	msg := ln.receive(id)[:min(n, ln.l.n.cfg.BufferSize)]
	if written {
		offset := uint64(imm) * landingUnit
		if offset+uint64(n) > uint64(len(ln.landing)) {
			ln.broken(fmt.Errorf("%w: WRITE of %d bytes at %d of the landing zone", transport.ErrProtocol, n, offset))
			return
		}
		msg = ln.landing[offset:][:n]
		a.landing, a.landed = uint32(offset), n
	}
	if len(msg) < messageHeader {
		ln.broken(fmt.Errorf("%w: message of %d bytes", transport.ErrProtocol, len(msg)))
		return
	}
	ln.l.laneIn.Add(uint64(n))
	ln.peerConsumed.Store(binary.LittleEndian.Uint32(msg[8:]))
	ln.peerFreed.Store(binary.LittleEndian.Uint32(msg[12:]))
	a.data = msg[messageHeader:]
	sequence := binary.LittleEndian.Uint64(msg)
	if (sequence == 0) != (len(a.data) == 0) {
		ln.broken(fmt.Errorf("%w: message %d of %d bytes", transport.ErrProtocol, sequence, len(a.data)))
		return
	}
	if err := ln.l.rx.laned(sequence, a); err != nil {
		ln.broken(err)
	}
}

// broken ends the link: the peer broke the protocol.
func (ln *lane) broken(err error) { ln.l.fail(err) }

// Failed implements rdma.Handler.
func (h *laneHandler) Failed(err error) {
	ln := (*lane)(h)
	ln.l.life.failed(ln, err)
}

// Turn implements rdma.Handler: what the burst freed is used at once.
func (h *laneHandler) Turn() {
	ln := (*lane)(h)
	ln.refill()
	ln.letGo()
	ln.flights.turn()
	ln.l.tx.pump()
}

// refill posts the receives again that were consumed, and counts them as credits.
func (ln *lane) refill() {
	r := &ln.l.rx
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(ln.repost); n > 0 {
		if ln.conn.PostReceives(ln.repost) == nil {
			ln.consumed.Add(uint32(n))
			ln.freedNow.Store(ln.freed)
		}
		ln.repost = ln.repost[:0]
	}
}

// letGo releases the payloads of messages that arrived.
func (ln *lane) letGo() {
	for i := range ln.released {
		ln.released[i].Release()
	}
	clear(ln.released)
	ln.released = ln.released[:0]
	if ln.moved > 0 {
		ln.l.out.Moved(ln.moved)
		ln.moved = 0
	}
}
