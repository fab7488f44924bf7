package rdmalink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// court is where rogues meet a link: one fabric for all scripts of a process. The
// rogue has a device of its own, so that it can do harm over a lane, too.
type court struct {
	fabric *fakeverbs.Fabric
	nics   [2]*rdma.NIC // the victim's, the rogue's
	net    *Network     // the victim's
	memory []byte       // the rogue's
	region rdma.Region
}

func newCourt(t testing.TB) *court {
	c := &court{fabric: fakeverbs.New(fakeverbs.Config{RetryDelay: 200 * mono.Microsecond})}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for i, host := range []string{"victim", "rogue"} {
		c.nics[i], err = rdma.Open(c.fabric.Host(host), rdma.Config{GIDIndex: -1})
		must(err)
	}
	c.net = New(Config{NIC: c.nics[0], Buffers: 4, BufferSize: 1 << 10, Landing: courtLanding, PoolMax: 32 << 20,
		Attempt: 20 * mono.Millisecond, Retry: 2 * mono.Millisecond})
	c.memory, err = rdma.Map(64<<10, -1)
	must(err)
	c.region, err = c.nics[1].Register(c.memory, rdma.LocalWrite|rdma.RemoteWrite|rdma.RemoteRead)
	must(err)
	// The pool's chunks and the CQs stay, once there are any.
	for _, n := range []int{4 << 10, 8 << 10, 16 << 10} {
		b, _ := c.net.pool.Alloc(n)
		c.net.pool.Free(b)
	}
	for _, nic := range c.nics {
		conn, err := nic.NewConn(rdma.ConnConfig{SendDepth: 1, RecvDepth: 1}, deaf{})
		must(err)
		must(conn.Close())
	}
	t.Cleanup(func() {
		must(errors.Join(c.net.Close(), c.region.Close(), rdma.Unmap(c.memory), c.nics[0].Close(), c.nics[1].Close()))
		if open := c.fabric.Open(); open != (fakeverbs.Counts{}) {
			t.Errorf("left open: %+v", open)
		}
	})
	return c
}

// courtLanding is larger than it need be: so a lane that stays mapped is seen.
const courtLanding = 1 << 20

// rogue is a peer that says what a script tells it to. It is the TCP link below
// the victim, too.
type rogue struct {
	court  *court
	victim *link
	script []byte

	conn *rdma.Conn // of its present lane; may be nil

	ends   atomic.Int64 // Handler.Closed of the victim
	why    error
	late   atomic.Int64 // frames after it
	owed   atomic.Int64 // payloads and READs of the victim that were not told their end
	closed atomic.Pointer[error]

	mu    sync.Mutex // Guards what follows.
	heard wire.LaneOffer
	next  uint64 // of the stream, to the victim
}

// byte takes one from the script; 0 when it is at its end.
func (r *rogue) byte() byte {
	if len(r.script) == 0 {
		return 0
	}
	b := r.script[0]
	r.script = r.script[1:]
	return b
}

func (r *rogue) take(n int) []byte {
	n = min(n, len(r.script))
	b := r.script[:n]
	r.script = r.script[n:]
	return b
}

// Peer, Send, ... : the rogue as transport.Link of the victim's TCP side.
func (r *rogue) Peer() wire.Hello {
	return wire.Hello{Role: wire.RoleFrontend, Name: "rogue", Features: wire.FeatureLane}
}

func (r *rogue) Send(frames []byte) error {
	if p := r.closed.Load(); p != nil {
		return closedBy(*p)
	}
	h, need, err := wire.Scan(frames, wire.PayloadMax)
	if err != nil || need > 0 {
		panic(fmt.Sprint("the victim sends no whole frame: ", err))
	}
	if h.Kind == wire.KindLaneOffer || h.Kind == wire.KindLaneAccept {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.heard.Decode(frames[wire.HeaderSize:h.Size()]); err != nil {
			panic(fmt.Sprint("the victim's offer: ", err))
		}
	}
	return nil
}

func (r *rogue) SendPayload(frame, payload []byte, release func()) error {
	if release != nil {
		defer release()
	}
	if p := r.closed.Load(); p != nil {
		return closedBy(*p)
	}
	return nil
}

func (r *rogue) Read(ops []transport.ReadOp) error {
	return transport.RefuseReads(ops, transport.ErrClosed)
}
func (r *rogue) Shift() mono.Dur            { return 0 }
func (r *rogue) Stats() transport.LinkStats { return transport.LinkStats{} }
func (r *rogue) Close(cause error)          { r.closed.CompareAndSwap(nil, &cause) }

// Buffer, ReceiveFrame, Closed: the victim's user.
type user struct{ r *rogue }

func (u user) Buffer(_ transport.Link, kind wire.Kind, _ []byte, n int) []byte {
	if n%2 == 0 {
		return nil
	}
	return make([]byte, n)
}

func (u user) Receive(l transport.Link, f transport.Frame) {
	u.r.late.Add(u.r.ends.Load())
}

func (u user) Closed(_ transport.Link, err error) {
	u.r.why = err
	u.r.ends.Add(1)
}

// endpoint is what a connectable peer would say; ours are real, so that lanes come
// up.
func (r *rogue) endpoint(generation uint32) wire.LaneOffer {
	c := r.court
	m := wire.LaneOffer{Generation: generation, QPN: 77, PSN: 1, GID: [16]byte{1}, MTU: 5, MaxReads: 16, Buffers: 4, BufferSize: 1 << 10, Nonce: 5,
		Landing: wire.RemoteMemory{Address: rdma.AddressOf(c.memory), Size: 32 << 10, RKey: c.region.RKey()},
		Slabs:   wire.RemoteMemory{Address: rdma.AddressOf(c.memory), Size: 64 << 10, RKey: c.region.RKey()}, Headers: 100}
	binary.LittleEndian.PutUint64(c.memory, m.Nonce)
	if r.conn != nil {
		e := r.conn.Local()
		m.QPN, m.PSN, m.GID, m.LID = e.QPN, e.PSN, e.GID, e.LID
	}
	return m
}

// renew makes the rogue's next queue pair.
func (r *rogue) renew(t *testing.T) {
	r.hangUp(t)
	var err error
	r.conn, err = r.court.nics[1].NewConn(rdma.ConnConfig{SendDepth: 64, RecvDepth: 64, Access: rdma.LocalWrite | rdma.RemoteWrite | rdma.RemoteRead}, deaf{})
	if err != nil {
		t.Fatal(err)
	}
	var receives []rdma.RecvWR
	for i := range uint64(16) {
		receives = append(receives, rdma.RecvWR{ID: i, SGE: r.piece(int(i)<<10, 1<<10)})
	}
	if err := r.conn.PostReceives(receives); err != nil {
		t.Fatal(err)
	}
}

func (r *rogue) hangUp(t *testing.T) {
	if r.conn != nil {
		if err := r.conn.Close(); err != nil {
			t.Error(err)
		}
		r.conn = nil
	}
}

func (r *rogue) piece(at, n int) rdma.SGE {
	return rdma.SGE{Addr: rdma.AddressOf(r.court.memory[at:]), Length: uint32(n), LKey: r.court.region.LKey()}
}

// deaf is the rogue's handler.
type deaf struct{}

func (deaf) Sent(uint32, error)                        {}
func (deaf) Received(uint32, int, uint32, bool, error) {}
func (deaf) Failed(error)                              {}
func (deaf) Turn()                                     {}

// mutate changes a field to what the script says.
func (r *rogue) mutate(m *wire.LaneOffer) {
	v := uint64(r.byte())<<8 | uint64(r.byte())
	switch r.byte() % 16 {
	case 0:
		m.QPN = uint32(v)
	case 1:
		m.PSN = uint32(v)
	case 2:
		m.GID = [16]byte{byte(v)}
	case 3:
		m.Buffers = uint16(v)
	case 4:
		m.BufferSize = uint32(v)
	case 5:
		m.Landing.Size = 1 << (v % 32)
	case 6:
		m.Landing.Address += v
	case 7:
		m.Landing.RKey ^= uint32(v)
	case 8:
		m.Slabs = wire.RemoteMemory{Address: 1 << 40, Size: 1 << 40, RKey: uint32(v)}
	case 9:
		m.Headers = uint32(v)
	case 10:
		m.Nonce ^= v
	case 11:
		m.MaxReads, m.MTU = byte(v), byte(v>>8)
	case 12:
		m.Generation = uint32(v)
	}
}

// tell hands the victim a frame, as the TCP link's goroutine would.
func (r *rogue) tell(kind wire.Kind, body, payload []byte) {
	(*tcpSide)(r.victim).Receive(r, transport.Frame{Kind: kind, Body: body, Payload: payload})
}

// tellFrame is tell of an encoded frame.
func (r *rogue) tellFrame(frame []byte) { r.tell(wire.Kind(frame[2]), frame[wire.HeaderSize:], nil) }

// settle lets the victim's life handle what it was told.
func (r *rogue) settle() {
	for begin := time.Now(); len(r.victim.life.events) > 0 && time.Since(begin) < 20*time.Millisecond; {
		time.Sleep(10 * time.Microsecond)
	}
	time.Sleep(30 * time.Microsecond)
}

// step does what the script's next byte says.
func (r *rogue) step(t *testing.T) {
	op := r.byte()
	if op&0x80 != 0 {
		defer r.settle()
	}
	r.mu.Lock()
	heard := r.heard
	r.mu.Unlock()
	switch op & 0x7f % 16 {
	case 0, 1: // offers and accepts, mostly such that a lane comes up
		m := r.connectable(t, op, heard.Generation)
		r.tellFrame(m.Append(nil))
	case 2, 3:
		m := r.connectable(t, op, heard.Generation)
		if op&0x7f%16 == 3 && r.conn != nil {
			_ = r.conn.Connect(endpointOf(heard))
		}
		r.tellFrame(m.AppendAccept(nil))
	case 4: // what an honest peer would do on hearing the victim's
		if r.conn != nil {
			_ = r.conn.Connect(endpointOf(heard))
		}
	case 5:
		r.tellFrame((&wire.LaneUp{Generation: r.generation(heard.Generation)}).Append(nil))
	case 6:
		text := string(r.take(int(r.byte() % 8)))
		m := wire.LaneDown{Generation: r.generation(heard.Generation), Next: uint64(r.byte()), Text: text}
		r.tellFrame(m.Append(nil))
	case 7: // a message of the stream
		r.next++
		r.message(r.next)
	case 8:
		r.message(uint64(r.byte()))
	case 9: // any body, of any kind
		kind := wire.Kind(r.byte())
		r.tell(kind, r.take(int(r.byte())), r.take(int(r.byte())))
	case 10, 11:
		r.overLane(op&0x7f%16 == 11)
	case 12:
		if r.conn != nil {
			r.conn.Fail(errors.New("the rogue leaves its lane"))
		}
	case 13:
		if r.met() {
			r.use()
		}
	case 14:
		if r.byte()%8 == 0 && r.met() {
			r.victim.Close(nil)
		}
	case 15:
		r.settle()
	}
}

func endpointOf(m wire.LaneOffer) rdma.Endpoint {
	return rdma.Endpoint{QPN: m.QPN, PSN: m.PSN, GID: m.GID, LID: m.LID, MTU: rdma.MTU(m.MTU), MaxReads: m.MaxReads}
}

// connectable is an offer or accept of a fresh queue pair, or a mutated one.
func (r *rogue) connectable(t *testing.T, op byte, heard uint32) wire.LaneOffer {
	if op&0x10 == 0 {
		r.renew(t)
	}
	m := r.endpoint(r.generation(heard))
	if op&0x20 != 0 {
		r.mutate(&m)
	}
	return m
}

// generation is the present one, or near it.
func (r *rogue) generation(heard uint32) uint32 {
	if r.victim.dialled {
		return heard + uint32(r.byte()%4/3)
	}
	return uint32(r.byte() % 4)
}

// message is one of the stream over TCP: frames, or anything.
func (r *rogue) message(sequence uint64) {
	var data []byte
	switch n := r.byte(); n % 4 {
	case 0:
		data = r.take(int(n))
	case 1:
		data = (&wire.Leave{Epoch: 1}).Append(nil)
	case 2:
		data = append((&wire.Output{}).Append(nil, int(n)), make([]byte, n)...)
	case 3:
		data = (&wire.Ping{Sequence: 1}).Append(nil)[:int(n)%24+1]
	}
	body := (&wire.LaneData{Sequence: sequence}).Append(nil, len(data))[wire.HeaderSize:]
	r.tell(wire.KindLaneData, body, data)
}

// overLane is a message by SEND, or by WRITE with immediate, to wherever the
// victim said or beside it.
func (r *rogue) overLane(write bool) {
	if r.conn == nil {
		return
	}
	r.mu.Lock()
	heard := r.heard
	r.mu.Unlock()
	const at = 40 << 10
	b := r.court.memory[at : at+1<<10]
	flags := r.byte()
	sequence := r.next + 1
	if flags&1 != 0 {
		sequence = uint64(r.byte())
	} else {
		r.next++
	}
	putHeader(b, sequence, uint32(r.byte()), uint32(r.byte())<<6)
	n := messageHeader + copy(b[messageHeader:], (&wire.Leave{Epoch: 1}).Append(nil))
	if flags&2 != 0 {
		n = int(r.byte()) * 4
	}
	wr := rdma.SendWR{Op: rdma.OpSend, SGEs: [2]rdma.SGE{r.piece(at, n)}, NumSGE: 1, Signaled: true}
	if write {
		wr.Op, wr.Imm = rdma.OpWriteImm, uint32(r.byte())
		if flags&4 != 0 {
			wr.Imm <<= 24
		}
		wr.Remote, wr.RKey = heard.Landing.Address+uint64(wr.Imm)*landingUnit%max(1, heard.Landing.Size), heard.Landing.RKey
		if flags&8 != 0 {
			wr.RKey++
		}
	}
	_ = r.conn.Post([]rdma.SendWR{wr})
	time.Sleep(20 * time.Microsecond)
}

// met reports whether the victim's user can know its link: not before the first
// callback, if it listened.
func (r *rogue) met() bool {
	select {
	case <-r.victim.life.attached:
		return true
	default:
		return false
	}
}

// use is what the victim's user does meanwhile.
func (r *rogue) use() {
	c, l := r.court, r.victim
	n := int(r.byte())
	switch buffers := c.net.Buffers(); n % 4 {
	case 0, 1:
		_ = l.Send((&wire.Leave{Epoch: 1}).Append(nil))
	case 2:
		b := buffers.Alloc(n * 64)
		r.owed.Add(1)
		_ = l.SendPayload((&wire.Output{}).Append(nil, len(b)), b, func() { r.owed.Add(-1); buffers.Free(b) })
	case 3:
		b := buffers.Alloc(n)
		r.owed.Add(1)
		ref := wire.SlabRef{Handle: wire.MakeSlabHandle(uint32(r.byte()), 1), Address: rdma.AddressOf(c.memory) + uint64(r.byte())*64, RKey: c.region.RKey(), Length: uint32(n)}
		_ = l.Read([]transport.ReadOp{{Request: 1, Input: ref, Dst: b, Done: func(uint64, error) { r.owed.Add(-1); buffers.Free(b) }}})
	}
}

// play runs a script against a link, ends that, and looks what is left. It returns
// what the link's user was told.
func (c *court) play(t *testing.T, script []byte) error {
	r := &rogue{court: c, script: script}
	base, links := c.fabric.Open(), c.net.Stats()
	dialled := r.byte()&1 != 0
	o := transport.Defaults(transport.Options{SendBuffer: 64 << 10, PayloadMax: 64 << 10, Heartbeat: 2 * mono.Millisecond})
	r.victim = newLink(c.net, o, user{r}, dialled)
	if dialled {
		r.victim.attach(r)
	} else {
		r.victim.expect(wire.Hello{Role: wire.RoleFrontend, Name: "rogue"}, wire.FeatureLane)
	}
	for steps := 0; len(r.script) > 0 && steps < 200 && r.closed.Load() == nil; steps++ {
		r.step(t)
	}
	alive := r.closed.Load() == nil
	cause := error(transport.ErrClosed)
	if p := r.closed.Load(); p != nil {
		cause = *p
	}
	r.Close(cause)
	over := make(chan struct{})
	go func() {
		defer close(over)
		(*tcpSide)(r.victim).Closed(r, cause)
	}()
	select {
	case <-over:
	case <-time.After(5 * time.Second):
		buf := make([]byte, 1<<20)
		// Not Fatal: what hangs would disturb the scripts that come after.
		panic(fmt.Sprintf("the link does not end after %v\n%s", script, buf[:runtime.Stack(buf, true)]))
	}
	r.hangUp(t)
	r.judge(t, alive, base, links)
	return r.why
}

// judge wants one typed end, and nothing left.
func (r *rogue) judge(t *testing.T, alive bool, base fakeverbs.Counts, links Stats) {
	if r.ends.Load() != 1 || r.late.Load() != 0 {
		t.Fatalf("Closed %d times, %d frames after it", r.ends.Load(), r.late.Load())
	}
	if err := r.why; !errors.Is(err, transport.ErrClosed) && !errors.Is(err, transport.ErrProtocol) {
		t.Fatalf("ended with %v", err)
	} else if alive && errors.Is(err, transport.ErrProtocol) && r.victim.cause.Load() == nil {
		t.Fatalf("a live link ended with %v", err)
	}
	if n := r.owed.Load(); n != 0 {
		t.Fatalf("%d payloads and READs were not told their end, or twice", n)
	}
	if n := r.court.nics[0].Window().Used(); n != 0 {
		t.Fatalf("%d bytes of the window of READs are still in use", n)
	}
	if st := r.court.net.Stats(); st.LinksRDMA != links.LinksRDMA || st.LinksTCP != links.LinksTCP {
		t.Fatalf("links that are no more: %d over RDMA, %d over TCP", st.LinksRDMA-links.LinksRDMA, st.LinksTCP-links.LinksTCP)
	}
	if now := r.court.fabric.Open(); now != base {
		t.Fatalf("open before: %+v, after: %+v", base, now)
	}
}

// Scripts: the role, then steps (see step; 0x80 on a step waits for its effect).
var scripts = map[string][]byte{
	"listener: a lane comes up and is used":       {0, 0x80, 1, 4, 0x85, 1, 13, 0, 13, 2, 13, 7, 1, 1, 7, 1, 10, 0, 0, 0, 11, 0, 0, 0, 3, 15, 13, 34, 15},
	"listener: up twice":                          {0, 0x80, 1, 4, 0x85, 1, 0x85, 1, 13, 0, 15, 0x86, 0, 1, 1},
	"listener: up without a lane":                 {0, 0x85, 1, 7, 1},
	"listener: an offer on top of a lane":         {0, 0x80, 1, 4, 0x85, 1, 13, 0, 0x80, 2, 4, 0x85, 2, 13, 0, 0x80, 3, 4, 0x85, 3, 15},
	"listener: an offer on top of one unanswered": {0, 0x80, 1, 0x80, 2, 0x80, 3, 15},
	"listener: down and again":                    {0, 0x80, 1, 4, 0x85, 1, 13, 0, 0x86, 0, 1, 1, 0x80, 2, 4, 0x85, 2, 13, 0, 15},
	"listener: downs of what never was":           {0, 0x86, 0, 1, 1, 0x86, 0, 1, 1, 7, 1},
	"listener: the queue pair dies":               {0, 0x80, 1, 4, 0x85, 1, 13, 2, 0x8c, 13, 2, 15, 15, 15, 0x86, 0, 1, 0, 7, 1, 15},
	"listener: a peer that never connects":        {0, 0x80, 1, 0x85, 1, 13, 0, 13, 2, 15, 15, 15, 15},
	"listener: accepts":                           {0, 0x82, 1, 0x80, 1, 0x82, 1, 15},
	"dialler: a lane comes up and is used":        {1, 15, 0x83, 0, 15, 13, 0, 13, 66, 13, 7, 1, 1, 7, 1, 10, 0, 0, 0, 11, 0, 0, 0, 3, 15},
	"dialler: refused":                            {1, 15, 0x86, 0, 0, 0, 15, 15, 0x83, 0, 15, 13, 0},
	"dialler: offered, and up":                    {1, 15, 0x83, 0, 15, 0x80, 0, 0x85, 0, 0x85, 0, 13, 0, 15},
	"dialler: accepts without end":                {1, 15, 0x83, 0, 0x83, 0, 0x83, 0, 0x83, 0, 15},
	"dialler: a nonce that is wrong":              {1, 15, 0xa3, 0, 1, 10, 0, 15, 15, 15},
	"noise":                                       []byte("and now for something completely different, and more of it"),
	"a body too short":                            {0, 9, 6, 3, 0, 1, 2, 3},
	"a close in the middle":                       {0, 0x80, 1, 4, 0x85, 1, 13, 2, 14, 0, 13, 2, 7, 1, 15},
	"a message ahead":                             {0, 0x80, 1, 4, 0x85, 1, 10, 1, 3, 0, 0, 10, 1, 2, 0, 0, 15, 8, 1, 1, 15},
	"an immediate beyond the zone":                {0, 0x80, 1, 4, 0x85, 1, 11, 4, 0, 0, 9, 15, 15},
	"a message without a header":                  {0, 0x80, 1, 4, 0x85, 1, 10, 2, 0, 0, 3, 15, 15},
	"a wrong key":                                 {0, 0x80, 1, 4, 0x85, 1, 13, 2, 11, 8, 0, 0, 1, 15, 15, 0x86, 0, 1, 0, 15},
	"a message twice over the lane":               {0, 0x80, 1, 4, 0x85, 1, 10, 1, 3, 0, 0, 10, 1, 3, 0, 0, 15},
}

// rude are those that end the link as the peer's breach of the protocol.
var rude = map[string]bool{
	"listener: up twice": true, "listener: an offer on top of a lane": true, "listener: an offer on top of one unanswered": true,
	"listener: accepts": true, "dialler: offered, and up": true, "a body too short": true, "noise": true,
	"an immediate beyond the zone": true, "a message without a header": true, "a message twice over the lane": true,
}

// What is known to be rude, and what is not: nothing of it leaves anything. (The
// fuzzer's threshold for memory is coarse; here each is played often enough.)
func TestRogues(t *testing.T) {
	c := newCourt(t)
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			why := c.play(t, script)
			// What a rogue does over its lane races with its going away over TCP.
			for try := 0; rude[name] && !errors.Is(why, transport.ErrProtocol) && try < 50; try++ {
				why = c.play(t, script)
			}
			if errors.Is(why, transport.ErrProtocol) != rude[name] {
				t.Errorf("the link's user is told: %v", why)
			}
			before := mapped(t)
			const times = 100
			for range times {
				c.play(t, script)
			}
			if grown := mapped(t) - before; grown > times/4*courtLanding && !raced() {
				t.Errorf("%d MiB stay mapped", grown>>20)
			}
		})
	}
}

// A peer may say anything on the side channel, in any order and in either role:
// never a panic, a hang, or something left open.
func FuzzHandshake(f *testing.F) {
	for _, s := range scripts {
		f.Add(s)
	}
	f.Add(bytes.Repeat([]byte{0, 6}, 200)) // more talk than can be handled, if the victim is slow
	c := newCourt(f)
	first, played := 0, 0
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return // longer ones are more of the same
		}
		c.play(t, script)
		if played++; played%100 != 0 {
			return
		}
		if first == 0 {
			first = mapped(t)
		} else if grown := mapped(t) - first; grown > 64*courtLanding && !raced() {
			t.Fatalf("%d MiB more are mapped than at first", grown>>20)
		}
	})
}
