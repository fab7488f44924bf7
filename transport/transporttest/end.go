package transporttest

import (
	"bytes"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// All that was queued before Close arrives, payloads too, although the other
// side is sending at the time.
func testCloseFlushes(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	back := p.back(t)
	payload := p.payload(1<<20, 1)
	var released atomic.Int64
	for n := range uint64(1000) {
		sendAll(t, p.link, answer(n))
		back.Send(bytes.Repeat(answer(n), 50))
	}
	if err := p.link.SendPayload((&wire.Output{}).Append(nil, len(payload)), payload, func() { released.Add(1) }); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	p.link.Close(why)
	p.link.Close(nil) // idempotent, and the first reason stays
	if err := p.link.Send(answer(1)); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Send after Close: %v", err)
	}
	if err := p.dialled.AwaitClosed(t); !errors.Is(err, why) {
		t.Errorf("closer: %v, want its own reason", err)
	}
	if err := p.accepted.AwaitClosed(t); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("peer: %v, want ErrClosed", err)
	}
	if n := p.accepted.Count(); n != 1002 {
		t.Fatalf("%d frames arrived, want 1002", n)
	}
	if got := p.accepted.Frames()[1001].Payload; !bytes.Equal(got, payload) || released.Load() != 1 {
		t.Errorf("payload of %d bytes, released %d times", len(got), released.Load())
	}
}

// A handler may close its own link.
func testCloseInHandler(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	p.accepted.OnReceive(func(l transport.Link, _ transport.Frame) { l.Close(nil) })
	sendAll(t, p.link, bytes.Repeat(answer(1), 100))
	if err := p.accepted.AwaitClosed(t); !errors.Is(err, transport.ErrClosed) {
		t.Error(err)
	}
	p.dialled.AwaitClosed(t)
	if n := p.accepted.Count(); n != 1 {
		t.Errorf("%d frames after Close in the first", n)
	}
}

// After the end everything is answered with ErrClosed, and released.
func testClosedEnd(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	back := p.back(t)
	p.link.Close(nil)
	p.dialled.AwaitClosed(t)
	p.accepted.AwaitClosed(t)
	for _, l := range []transport.Link{p.link, back} {
		released := 0
		if err := l.SendPayload((&wire.Output{}).Append(nil, 3), []byte("abc"), func() { released++ }); !errors.Is(err, transport.ErrClosed) || released != 1 {
			t.Errorf("payload on a closed link: %v, released %d times", err, released)
		}
		if err := l.Send(answer(1)); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Send on a closed link: %v", err)
		}
		l.Close(nil)
		l.Stats()
		l.Shift()
	}
}

// Closing a listener closes its links and waits for their handlers; the
// address is free again at once.
func testListenerClose(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	p.back(t)
	address := p.listener.Address()
	if err := p.listener.Close(); err != nil {
		t.Fatal(err)
	}
	p.accepted.mu.Lock()
	told := p.accepted.closed
	p.accepted.mu.Unlock()
	if told != 1 {
		t.Error("Close returned before the accepted link's handler was told")
	}
	p.dialled.AwaitClosed(t)
	if _, err := f.Network.Dial(t.Context(), address, options(wire.RoleBackend, "late"), NewRecorder()); !errors.Is(err, transport.ErrUnreachable) {
		t.Errorf("dial after Close: %v", err)
	}
	again, err := f.Network.Listen(address, options(wire.RoleFrontend, "again"), nil)
	if err != nil {
		t.Fatalf("listen again: %v", err)
	}
	again.Close()
}

// When nothing arrives any more both ends notice by themselves, and nothing
// that was queued stays pinned.
func testHalfOpen(t *testing.T, f Fixture) {
	var c Cable
	p := connect(t, f, func(d, l *transport.Options) { quick(d); quick(l) },
		func(t *testing.T, a string) string { c = f.Cable(t, a); return c.Address() })
	p.back(t)
	c.Freeze()
	var released atomic.Int64
	sent := int64(0)
	for range 20 {
		p.link.SendPayload((&wire.Output{}).Append(nil, 1<<20), make([]byte, 1<<20), func() { released.Add(1) })
		sent++
	}
	// One end may learn it from the other's parting instead of by silence.
	here, there := p.dialled.AwaitClosed(t), p.accepted.AwaitClosed(t)
	if !errors.Is(here, transport.ErrSilent) && !errors.Is(there, transport.ErrSilent) {
		t.Errorf("half-open link ended with %v and %v", here, there)
	}
	if released.Load() != sent {
		t.Errorf("%d of %d payloads released when Closed was called", released.Load(), sent)
	}
}

// A peer that vanishes in the middle of a message: whole frames only, then the
// end.
func testCut(t *testing.T, f Fixture) {
	var c Cable
	p := connect(t, f, nil, func(t *testing.T, a string) string { c = f.Cable(t, a); return c.Address() })
	payload := p.payload(3<<20, 9)
	for i := range 4 {
		p.link.SendPayload((&wire.Output{Request: wire.RequestID(i)}).Append(nil, len(payload)), payload, nil)
	}
	Until(t, "the first payload", func() bool { return p.accepted.Count() >= 1 })
	c.Cut()
	for _, err := range []error{p.dialled.AwaitClosed(t), p.accepted.AwaitClosed(t)} {
		if !errors.Is(err, transport.ErrClosed) {
			t.Errorf("cut link ended with %v", err)
		}
	}
	for i, got := range p.accepted.Frames() {
		if !bytes.Equal(got.Payload, payload) {
			t.Errorf("frame %d is not whole: %d bytes", i, len(got.Payload))
		}
	}
}

// While a handler is slow (a fault, but not the peer's) the link stays.
func testSlowHandler(t *testing.T, f Fixture) {
	p := connect(t, f, func(d, l *transport.Options) { quick(d); quick(l) }, nil)
	p.accepted.OnReceive(func(transport.Link, transport.Frame) { time.Sleep(500 * time.Millisecond) })
	sendAll(t, p.link, answer(1))
	Until(t, "the slow frame", func() bool { return p.accepted.Count() == 1 })
	p.accepted.OnReceive(nil)
	sendAll(t, p.link, answer(2))
	Until(t, "the next one", func() bool { return p.accepted.Count() == 2 })
}

// Instants cross with the shift of each end's own clock, right from the first
// frame.
func testShift(t *testing.T, f Fixture) {
	const apart, tolerance = 3600 * mono.Second, 200 * mono.Millisecond
	later := func() mono.Time { return mono.Now().Add(apart) }
	p := connect(t, f, func(d, l *transport.Options) { l.Clock = later }, nil)
	near := func(what string, got, want mono.Dur) {
		t.Helper()
		if got < want-tolerance || got > want+tolerance {
			t.Errorf("%s: %v, want about %v", what, got, want)
		}
	}
	sent := mono.Now()
	sendAll(t, p.link, (&wire.Submit{Arrival: sent}).Append(nil))
	Until(t, "a submit", func() bool { return p.accepted.Count() == 1 })
	back := p.accepted.Link()
	near("the dialler's shift", p.link.Shift(), -apart)
	near("the listener's shift", back.Shift(), apart)
	near("the two together", p.link.Shift()+back.Shift(), 0)
	near("the offset in the statistics", p.link.Stats().Offset, apart)
	var m wire.Submit
	if err := m.Decode(p.accepted.Frames()[0].Body, back.Shift()); err != nil {
		t.Fatal(err)
	}
	near("an instant across the link", m.Arrival.Sub(sent.Add(apart)), 0)
}

// Heartbeats measure while nothing else happens; counters count.
func testStats(t *testing.T, f Fixture) {
	p := connect(t, f, func(d, l *transport.Options) { d.Heartbeat = 10 * mono.Millisecond }, nil)
	sendAll(t, p.link, bytes.Repeat(answer(1), 10))
	Until(t, "measurements", func() bool { return p.link.Stats().Samples >= 10 })
	Until(t, "the frames", func() bool { return p.accepted.Count() == 10 })
	st := p.link.Stats()
	if st.RTT <= 0 || st.DelayBound <= 0 || st.DelayBound > 10*mono.Second || st.FramesOut < 10 || st.BytesOut < 10*uint64(len(answer(1))) {
		t.Errorf("%+v", st)
	}
	if back := p.accepted.Link().Stats(); back.FramesIn < 10 || back.BytesIn < 10*uint64(len(answer(1))) {
		t.Errorf("accepted: %+v", back)
	}
}

// The bound on the delay rises when the way gets slower, and comes down again when
// that has passed; so do the READs' times.
func testDelayBound(t *testing.T, f Fixture) {
	if f.Delay == nil {
		t.Skip("this transport has no way to be slowed down")
	}
	const added = 20 * time.Millisecond
	slabs := NewSlabs(2, 5000)
	var c Cable
	p := connect(t, f, func(d, l *transport.Options) {
		d.Heartbeat, l.Slabs = 5*mono.Millisecond, slabs
		d.Silence, l.Silence = 20*mono.Second, 20*mono.Second
	}, func(t *testing.T, a string) string { c = f.Cable(t, a); return c.Address() })
	read := func() {
		r := newResults()
		if err := p.link.Read([]transport.ReadOp{r.op(slabs, 0)}); err != nil {
			t.Fatal(err)
		}
		r.check(t, 1, none)
	}
	read()
	bound := func() time.Duration { return p.link.Stats().DelayBound.Std() }
	Until(t, "a low bound", func() bool { return p.link.Stats().Samples >= 20 && bound() < added/2 })
	before := bound()
	f.Delay(c, added)
	Until(t, "a high bound", func() bool { return bound() >= added*9/10 })
	read()
	after := p.link.Stats()
	if reads := after.Reads[transport.ReadClass(5000)]; reads.Samples > 0 && reads.P99.Std() < added*9/10 {
		t.Errorf("READs on a way of %v took %v", added, reads.P99)
	}
	f.Delay(c, 0)
	Until(t, "a low bound again", func() bool { return bound() < added/2 })
	t.Logf("bound: %v at first, %v with %v more, %v after", before, after.DelayBound, added, bound())
}
