package rdmalink_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// counted is a Handler that checks that numbered frames come once and in order.
type counted struct {
	t         *testing.T
	next      atomic.Uint64
	unchecked atomic.Bool // the numbers mean nothing
	link      atomic.Pointer[transport.Link]
	closed    atomic.Pointer[error]
}

func (c *counted) Receive(l transport.Link, f transport.Frame) {
	if c.unchecked.Load() {
		return
	}
	c.meet(l)
	var n uint64
	switch f.Kind {
	case wire.KindAnswer:
		var m wire.Answer
		if err := m.Decode(f.Body); err != nil {
			c.t.Error(err)
		}
		n = uint64(m.Request)
	case wire.KindOutput:
		var m wire.Output
		if err := m.Decode(f.Body, 0); err != nil {
			c.t.Error(err)
		}
		n = uint64(m.Request)
		for i := 0; i < len(f.Payload); i += blockSize {
			if got := f.Payload[i:min(i+blockSize, len(f.Payload))]; !bytes.Equal(got, block(n, i)[:len(got)]) {
				c.t.Errorf("output %d: of %d bytes those from %d are wrong", n, len(f.Payload), i)
				break
			}
		}
	}
	if want := c.next.Load(); n != want {
		c.t.Errorf("frame %d where %d is due", n, want)
	}
	c.next.Add(1)
}

// meet keeps the link of the first frame.
//
//go:noinline
func (c *counted) meet(l transport.Link) { c.link.CompareAndSwap(nil, &l) }

func (c *counted) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

func (c *counted) Closed(_ transport.Link, err error) { c.closed.Store(&err) }

// two are two hosts with a link between them.
type two struct {
	*fake
	here, there *counted
	link, back  transport.Link
	listener    transport.Listener
	buffers     transport.Allocator
	netB        *rdmalink.Network
	nicB        *rdma.NIC
}

// join links host a, which dials, with host b. quick retries lanes soon.
func join(t *testing.T, c rdmalink.Config, slabs *transporttest.Slabs) *two {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	j := &two{fake: newFake(t, c), here: &counted{t: t}, there: &counted{t: t}}
	j.nicB, j.netB = j.host(t, "b", c)
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend, Name: "b"}}
	if slabs != nil {
		o.Slabs = slabs
	}
	var err error
	j.listener, err = j.netB.Listen(local, o, func(wire.Hello) (transport.Handler, error) { return j.there, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.listener.Close() })
	if slabs != nil {
		slabs.Serve(j.listener, j.net)
	}
	o = transport.Options{Hello: wire.Hello{Role: wire.RoleBackend, Name: "a"}}
	if j.link, err = j.net.Dial(t.Context(), j.listener.Address(), o, j.here); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { finish(t, j.link, j.here) })
	send(t, j.link, 0)
	transporttest.Until(t, "the first frame", func() bool { return j.there.link.Load() != nil })
	j.back = *j.there.link.Load()
	j.buffers = j.net.Buffers()
	return j
}

// finish closes a link and waits until its handler was told.
func finish(t *testing.T, l transport.Link, h *counted) {
	l.Close(nil)
	transporttest.Until(t, "Closed", func() bool { return h.closed.Load() != nil })
}

func (j *two) lanes() int64 { return j.net.Stats().LinksRDMA }

// send repeats a numbered frame until it is taken.
func send(t *testing.T, l transport.Link, n uint64) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Microsecond) {
		err := l.Send((&wire.Answer{Request: wire.RequestID(n)}).Append(nil))
		if err == nil {
			return
		}
		if !errors.Is(err, transport.ErrFull) || time.Since(begin) > 20*time.Second {
			t.Errorf("send %d: %v", n, err)
			return
		}
	}
}

// sendOutput does so with a payload of the network's memory, whose bytes the
// receiver knows. Each attempt, refused or not, has its release.
func sendOutput(t *testing.T, j *two, l transport.Link, n uint64, size int, outputs, released *atomic.Int64) {
	t.Helper()
	frame := (&wire.Output{Request: wire.RequestID(n)}).Append(nil, size)
	for begin := time.Now(); ; time.Sleep(50 * time.Microsecond) {
		payload := j.buffers.Alloc(size)
		for i := 0; i < size; i += blockSize {
			copy(payload[i:], block(n, i))
		}
		outputs.Add(1)
		err := l.SendPayload(frame, payload, func() {
			released.Add(1)
			j.buffers.Free(payload)
		})
		if err == nil {
			return
		}
		if !errors.Is(err, transport.ErrFull) || time.Since(begin) > 20*time.Second {
			t.Errorf("output %d: %v", n, err)
			return
		}
	}
}

// blockSize is how many bytes of an output are alike: each block tells where it belongs.
const blockSize = 256

var blocks = sync.OnceValue(func() *[256][blockSize]byte {
	var all [256][blockSize]byte
	for v := range all {
		for i := range all[v] {
			all[v][i] = byte(v)
		}
	}
	return &all
})

// block is what stands in output n from byte i on. (Whole, as the race detector counts bytes.)
func block(n uint64, i int) []byte { return blocks()[byte(n)+byte(i/blockSize)][:] }

// lose are ways to lose a lane.
func lose() map[string]func(j *two, r *rand.Rand) {
	nic := func(j *two, r *rand.Rand) *fakeverbs.NIC {
		return j.fabric.Host([]string{"a", "b"}[r.IntN(2)]).NIC("fake0")
	}
	return map[string]func(j *two, r *rand.Rand){
		"a work request fails": func(j *two, r *rand.Rand) { nic(j, r).FailNext(0, rdma.StatusGeneral) },
		"the peer refuses":     func(j *two, r *rand.Rand) { nic(j, r).FailNext(0, rdma.StatusRemoteAccess) },
		"the port flaps": func(j *two, r *rand.Rand) {
			n := nic(j, r)
			n.Down()
			time.Sleep(time.Duration(20+r.IntN(30)) * time.Millisecond) // longer than it takes to give up
			n.Up()
		},
		"the way is cut": func(j *two, r *rand.Rand) {
			j.fabric.Partition("a", "b")
			time.Sleep(time.Duration(20+r.IntN(30)) * time.Millisecond) // longer than it takes to give up
			j.fabric.Heal("a", "b")
		},
	}
}

// Lanes are lost in every way, again and again, while both sides send frames and
// outputs and one READs: every frame arrives once and in order, every READ brings
// its own bytes, every payload is released, and lanes come back.
func TestLostLanesLoseNothing(t *testing.T) {
	const seed, rounds = 7, 5
	for name, fault := range lose() {
		t.Run(name, func(t *testing.T) {
			slabs := transporttest.NewSlabs(64, 100, 5000, 150<<10, 17)
			j := join(t, rdmalink.Config{Retry: 5 * mono.Millisecond, Attempt: 10 * mono.Second}, slabs)
			j.fabric.SetDelay(20 * mono.Microsecond)
			stop := make(chan struct{})
			halt := sync.OnceFunc(func() { close(stop) })
			defer halt()
			finished := make(chan uint64, 2)
			var released, outputs atomic.Int64
			go traffic(t, j, j.link, 1, stop, finished, &released, &outputs)
			go traffic(t, j, j.back, 0, stop, finished, &released, &outputs)
			readsDone := make(chan struct{})
			go readAll(t, j, slabs, stop, readsDone)
			r := rand.New(rand.NewPCG(seed, 1))
			for range rounds {
				// While nothing is on the wire (a peer that is slow has all its receives in
				// use) a lane survives a cut: so again, until it does not.
				for lost := j.net.Stats().LanesLost; j.net.Stats().LanesLost == lost; {
					fault(j, r)
					time.Sleep(10 * time.Millisecond)
				}
				transporttest.Until(t, "another lane", func() bool { return j.lanes() == 1 })
				time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
			}
			halt()
			a, b := <-finished, <-finished
			<-readsDone
			transporttest.Until(t, "all frames", func() bool { return j.there.next.Load()+j.here.next.Load() == a+b })
			transporttest.Until(t, "all releases", func() bool { return released.Load() == outputs.Load() })
			transporttest.Until(t, "READs over a lane", func() bool { // faults may still be armed
				checkReads(t, j.link, slabs)
				return j.net.Stats().ReadsRDMA > 0
			})
			if st := j.net.Stats(); st.LanesLost < rounds {
				t.Errorf("lanes were not lost: %+v", st)
			}
		})
	}
}

// traffic sends numbered frames, some with a payload, until told to stop.
func traffic(t *testing.T, j *two, l transport.Link, n uint64, stop chan struct{}, finished chan uint64, released, outputs *atomic.Int64) {
	sizes := []int{10, 3000, 20 << 10, 300 << 10}
	for ; ; n++ {
		select {
		case <-stop:
			finished <- n
			return
		default:
		}
		if t.Failed() { // each more would say the same
			<-stop
			continue
		}
		if n%5 == 0 {
			sendOutput(t, j, l, n, sizes[n/5%uint64(len(sizes))], outputs, released)
		} else {
			send(t, l, n)
		}
	}
}

// readAll READs all slabs, over and over.
func readAll(t *testing.T, j *two, slabs *transporttest.Slabs, stop, done chan struct{}) {
	defer close(done)
	for {
		select {
		case <-stop:
			return
		default:
		}
		left := make(chan error, slabs.Count())
		var ops []transport.ReadOp
		for i := range slabs.Count() {
			op := slabs.Op(i)
			op.Done = func(_ uint64, err error) {
				if err == nil && !bytes.Equal(op.Dst, slabs.Bytes(i)) {
					err = errors.New("other bytes")
				}
				left <- err
			}
			ops = append(ops, op)
		}
		if err := j.link.Read(ops); err != nil {
			t.Error(err)
			return
		}
		for range ops {
			if err := <-left; err != nil {
				t.Errorf("READ: %v", err)
			}
		}
		for i := range ops {
			j.buffers.Free(ops[i].Dst)
		}
	}
}

// A lane whose way is closed from the start is no lane: the probe fails, the link
// goes over TCP, and takes a lane later, when there is one.
func TestProbeDecides(t *testing.T) {
	f := newFake(t, rdmalink.Config{Retry: 20 * mono.Millisecond})
	_, b := f.host(t, "b", rdmalink.Config{})
	f.fabric.Partition("a", "b")
	there, here := &counted{t: t}, &counted{t: t}
	ln, err := b.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return there, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	l, err := f.net.Dial(t.Context(), ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, here)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, l, here)
	if st := f.net.Stats(); st.LinksTCP != 1 || st.LinksRDMA != 0 {
		t.Errorf("without a way: %+v", st)
	}
	for n := range uint64(100) {
		send(t, l, n)
	}
	transporttest.Until(t, "frames over TCP", func() bool { return there.next.Load() == 100 })
	f.fabric.Heal("a", "b")
	transporttest.Until(t, "a lane", func() bool { return f.net.Stats().LinksRDMA == 1 })
	for n := range uint64(100) {
		send(t, l, 100+n)
	}
	transporttest.Until(t, "frames over the lane", func() bool { return there.next.Load() == 200 && f.net.Stats().Sends > 0 })
}

// One end without RDMA, or with it and told not to: TCP, in both directions of
// dialling. Where RDMA is required, such a peer is refused, and told why.
func TestPeerWithoutRDMA(t *testing.T) {
	f := newFake(t, rdmalink.Config{})
	_, strict := f.host(t, "strict", rdmalink.Config{Require: true})
	plain := rdmalink.New(rdmalink.Config{TCP: tcp.New()})
	for _, c := range []struct {
		name            string
		listens, dials  transport.Network
		refused, isRDMA bool
	}{
		{"with listens, plain TCP dials", f.net, tcp.New(), false, false},
		{"with listens, without dials", f.net, plain, false, false},
		{"without listens, with dials", plain, f.net, false, false},
		{"plain TCP listens, with dials", tcp.New(), f.net, false, false},
		{"strict listens, without dials", strict, plain, true, false},
		{"without listens, strict dials", plain, strict, true, false},
		{"strict listens, with dials", strict, f.net, false, true},
		{"with listens, strict dials", f.net, strict, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			slabs := transporttest.NewSlabs(3, 5000)
			there, here := &counted{t: t}, &counted{t: t}
			ln, err := c.listens.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}, Slabs: slabs}, func(wire.Hello) (transport.Handler, error) { return there, nil })
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			slabs.Serve(ln, c.dials)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			l, err := c.dials.Dial(ctx, ln.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, here)
			if c.refused {
				if !errors.Is(err, transport.ErrRejected) || !strings.Contains(err.Error(), "rdma.mode") || here.closed.Load() != nil {
					t.Errorf("dial: %v; handler was told of an end: %v", err, here.closed.Load() != nil)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer finish(t, l, here)
			before := f.net.Stats().ReadsRDMA + strict.Stats().ReadsRDMA
			checkReads(t, l, slabs)
			if byLane := f.net.Stats().ReadsRDMA+strict.Stats().ReadsRDMA > before; byLane != c.isRDMA {
				t.Errorf("READs by RDMA: %v", byLane)
			}
			if _, bare := c.dials.(*tcp.Network); l.Peer().Features != 0 && !bare {
				t.Error("the link's features show above it")
			}
		})
	}
	for _, n := range []*rdmalink.Network{f.net, strict, plain} {
		transporttest.Until(t, "no link is counted that is over", func() bool { st := n.Stats(); return st.LinksTCP == 0 && st.LinksRDMA == 0 })
	}
}

// checkReads READs every slab once.
func checkReads(t *testing.T, l transport.Link, slabs *transporttest.Slabs) {
	t.Helper()
	errs := make(chan error, slabs.Count())
	var ops []transport.ReadOp
	for i := range slabs.Count() {
		op := slabs.Op(i)
		op.Done = func(_ uint64, err error) { errs <- err }
		ops = append(ops, op)
	}
	if err := l.Read(ops); err != nil {
		t.Fatal(err)
	}
	for range ops {
		if err := <-errs; err != nil {
			t.Errorf("READ: %v", err)
		}
	}
	for i := range ops {
		if !bytes.Equal(ops[i].Dst, slabs.Bytes(i)) {
			t.Errorf("READ %d brought other bytes", i)
		}
	}
}

// A reference with a wrong key or address is not posted, as it would cost the
// lane: TCP serves it, by its handle. So does it serve what the frontend's device
// has forgotten, which does cost the lane, once.
func TestWrongKey(t *testing.T) {
	slabs := transporttest.NewSlabs(8, 5000)
	j := join(t, rdmalink.Config{Retry: 10 * mono.Millisecond}, slabs)
	for name, spoil := range map[string]func(r *wire.SlabRef){
		"key": func(r *wire.SlabRef) { r.RKey++ }, "address below": func(r *wire.SlabRef) { r.Address = 4096 },
		"address above": func(r *wire.SlabRef) { r.Address += 1 << 40 }, "wraps": func(r *wire.SlabRef) { r.Address = ^uint64(0) - 100 },
		"no key": func(r *wire.SlabRef) { r.RKey, r.Address = 0, 0 },
	} {
		op := slabs.Op(1)
		spoil(&op.Input)
		err := make(chan error, 1)
		op.Done = func(_ uint64, e error) { err <- e }
		if e := j.link.Read([]transport.ReadOp{op}); e != nil {
			t.Fatal(e)
		}
		if e := <-err; e != nil || !bytes.Equal(op.Dst, slabs.Bytes(1)) {
			t.Errorf("%s: %v", name, e)
		}
	}
	if st := j.net.Stats(); st.LanesLost != 0 || st.ReadsTCP != 5 {
		t.Errorf("%+v", st)
	}
	j.netB.Forget(slabs)
	checkReads(t, j.link, slabs)
	if st := j.net.Stats(); st.LanesLost != 1 || st.ReadsMoved == 0 {
		t.Errorf("a key that the device has forgotten: %+v", st)
	}
}

// A slab that was given to another request while its READ was under way: the
// header behind it tells.
func TestStaleSlab(t *testing.T) {
	slabs := transporttest.NewSlabs(1, 5000)
	j := join(t, rdmalink.Config{}, slabs)
	j.fabric.SetDelay(20 * mono.Millisecond)
	op := slabs.Op(0)
	got := make(chan error, 1)
	op.Done = func(_ uint64, err error) { got <- err }
	if err := j.link.Read([]transport.ReadOp{op}); err != nil {
		t.Fatal(err)
	}
	memory, _ := slabs.Memory()
	binary.LittleEndian.PutUint64(memory, 12345) // before anything is executed
	if err := <-got; !errors.Is(err, transport.ErrStale) {
		t.Errorf("READ of a slab that was given away: %v", err)
	}
	if st := j.net.Stats(); st.ReadsStale != 1 || st.ReadsTCP != 0 {
		t.Errorf("%+v", st)
	}
}

// When the device hangs (nothing completes any more) TCP takes over.
func TestHungDevice(t *testing.T) {
	j := join(t, rdmalink.Config{Retry: 20 * mono.Millisecond, Attempt: 100 * mono.Millisecond}, nil)
	j.fabric.Freeze()
	begin := time.Now()
	for n := range uint64(200) {
		send(t, j.link, 1+n)
	}
	transporttest.Until(t, "frames past the device", func() bool { return j.there.next.Load() == 201 })
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
	j.fabric.Thaw()
	transporttest.Until(t, "a lane again", func() bool { return j.lanes() == 1 })
}
