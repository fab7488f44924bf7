package rdmalink

import (
	"sync"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// flights are the READs that a lane has posted: of each slab its bytes, in pieces,
// and behind them its header. A queue pair executes READs in the order of posting
// (InfiniBand specification, volume 1, ordering rules of the send queue: READ after
// READ needs no fence), so a header that still names the request says that the bytes
// before it were the request's, as far as the peer's device samples its memory in that
// order: not all are known to. What a stale READ could cost is one item of a batch,
// never a wrong answer: a slab is given away only once its request is answered, and
// then the frontend drops the output.
//
// Bounded thrice: by the READs that both devices work on at a time (more would wait
// in the send queue, in front of the messages behind them), by the queue's depth, and
// by the NIC's window of bytes.
type flights struct {
	ln    *lane  // Immutable.
	depth int    // Immutable: work requests of the send queue that are ours.
	wake  func() // Immutable: windowOpen, bound once.

	mu     sync.Mutex // Guards what follows.
	all    []flight
	free   []uint32
	posted int   // work requests
	awaits bool  // the window will call windowOpen
	wants  int64 // bytes, while it awaits
	room   int64 // bytes of the window that it has taken for the first in the queue
	closed bool
	wrs    []rdma.SendWR
	landed []outcome // since the turn began
	spare  []outcome // the turn's before
	given  int64     // bytes of the window, likewise
	lost   []uint32  // places of ops that the lane could not make
}

// flight is one READ under way.
type flight struct {
	at     uint32 // its place in reads
	op     transport.ReadOp
	wrs    int
	failed bool
}

// outcome is one READ that is over.
type outcome struct {
	op  transport.ReadOp
	err error
}

// flightsMax bounds the READs of a lane in flight.
const flightsMax = 64

// readBurst is how many work requests are posted at a time.
const readBurst = 32

func (f *flights) init(ln *lane, most int) {
	f.ln, f.wake = ln, f.windowOpen
	f.depth = max(2*most, 32)
	f.all = make([]flight, most)
	for i := range most {
		f.free = append(f.free, uint32(most-1-i))
	}
}

// bound lowers the number of READs in flight to what the peer's device works on.
func (f *flights) bound(most int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = f.free[max(0, len(f.free)-max(1, most)):]
}

// pump posts what may be posted. Any goroutine.
func (f *flights) pump() {
	t := &f.ln.l.reads
	t.mu.Lock()
	defer t.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := 0
	for _, at := range t.queue {
		if f.closed || f.awaits || !f.take(at, t.slots[at].op) {
			break
		}
		taken++
	}
	t.queue = t.queue[:copy(t.queue, t.queue[taken:])]
	f.post()
}

// take composes one READ; false: it must wait. Caller holds mu.
func (f *flights) take(at uint32, op transport.ReadOp) bool {
	n := pieces(len(op.Dst)) + 1
	if len(f.free) == 0 || f.posted+n > f.depth {
		return false
	}
	nic := f.ln.l.n.cfg.NIC
	if need := int64(len(op.Dst)); need > f.room {
		f.awaits, f.wants = true, need
		if !nic.Window().Take(need, f.wake) {
			return false
		}
		f.awaits = false
	} else {
		f.room -= need // it was taken for this very one
	}
	i := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	f.all[i] = flight{at: at, op: op, wrs: n}
	f.posted += n
	lkey, _ := nic.LocalKey(op.Dst)
	for piece := range n - 1 {
		from := piece * pieceMax
		dst := op.Dst[from:min(from+pieceMax, len(op.Dst))]
		f.add(rdma.SendWR{ID: uint64(idData) | uint64(piece)<<16 | uint64(i), Op: rdma.OpRead, Remote: op.Input.Address + uint64(from), RKey: op.Input.RKey,
			SGEs: [2]rdma.SGE{{Addr: rdma.AddressOf(dst), Length: uint32(len(dst)), LKey: lkey}}, NumSGE: 1})
	}
	header := f.ln.header(int(i))
	f.add(rdma.SendWR{ID: uint64(idHeader) | uint64(i), Op: rdma.OpRead,
		Remote: f.ln.peer.Slabs.Address + uint64(op.Input.Handle.Index())*wire.SlabHeaderSize, RKey: op.Input.RKey,
		SGEs: [2]rdma.SGE{{Addr: rdma.AddressOf(header), Length: wire.SlabHeaderSize, LKey: f.ln.lkey}}, NumSGE: 1})
	return true
}

// add collects one work request; full bursts are posted.
func (f *flights) add(wr rdma.SendWR) {
	f.wrs = append(f.wrs, wr)
	if len(f.wrs) == readBurst {
		f.post()
	}
}

// post hands them to the device; the last one brings the completion of all. Caller
// holds mu.
func (f *flights) post() {
	if len(f.wrs) == 0 {
		return
	}
	f.wrs[len(f.wrs)-1].Signaled = true
	if f.ln.conn.Post(f.wrs) != nil {
		// The lane has failed and owes nothing for these: they are done here.
		for i := range f.wrs { // (a full queue it cannot be: see depth)
			f.doneLocked(uint32(f.wrs[i].ID), &rdma.StatusError{Status: rdma.StatusFlushed})
		}
	}
	f.wrs = f.wrs[:0]
}

// windowOpen is called when the NIC's window has taken the bytes that were awaited.
func (f *flights) windowOpen() {
	f.mu.Lock()
	f.awaits = false
	back := int64(0)
	if f.closed {
		back = f.wants // nobody is left to use them
	} else {
		f.room = f.wants
	}
	f.mu.Unlock()
	if back > 0 {
		f.ln.l.n.cfg.NIC.Window().Give(back)
	}
	f.pump()
}

// sent takes the end of one work request. On the polling thread.
func (f *flights) sent(id uint32, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doneLocked(id, err)
}

func (f *flights) doneLocked(id uint32, err error) {
	i := id & 0xffff
	w := &f.all[i]
	w.failed = w.failed || err != nil
	if w.wrs--; w.wrs > 0 { // not the header yet
		f.posted--
		return
	}
	f.posted--
	f.given += int64(len(w.op.Dst))
	if w.failed {
		f.lost = append(f.lost, w.at)
	} else {
		f.landed = append(f.landed, f.judge(i, w))
	}
	*w = flight{}
	f.free = append(f.free, i)
}

// judge looks at the header that came behind the bytes, and gives the op's place
// back. (The table's lock comes before ours, so that waits for the turn's end.)
func (f *flights) judge(i uint32, w *flight) outcome {
	o := outcome{op: w.op}
	o.op.Token = uint64(w.at)
	if h := wire.DecodeSlabHeader(f.ln.header(int(i))); !h.Holds(w.op.Input, w.op.Request) {
		o.err = transport.ErrStale
	}
	return o
}

// turn tells the users of what has landed, and posts more.
func (f *flights) turn() {
	f.mu.Lock()
	landed, given := f.landed, f.given
	f.landed, f.spare, f.given = f.spare[:0], landed, 0
	f.mu.Unlock()
	if given > 0 {
		f.ln.l.n.cfg.NIC.Window().Give(given)
	}
	c := &f.ln.l.n.counters
	for i := range landed {
		o := &landed[i]
		t := &f.ln.l.reads
		t.mu.Lock()
		op := t.leave(uint32(o.op.Token), o.err)
		t.mu.Unlock()
		c.readsRDMA.Add(1)
		c.readBytesRDMA.Add(uint64(len(op.Dst)))
		if o.err != nil {
			c.readsStale.Add(1)
		}
		op.Done(op.Token, o.err)
	}
	clear(landed)
	f.pump()
}

// shut ends the posting; the turn after it is the last.
func (f *flights) shut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.given += f.room
	f.room = 0
}

// left are the places of the READs that the lane, shut now, did not make.
func (f *flights) left() []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	left := f.lost
	f.lost = nil
	return left
}
