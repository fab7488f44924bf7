package transporttest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Frames of one goroutine arrive in order, singly or many to a Send, in both
// directions.
func testOrder(t *testing.T, f Fixture) {
	const count = 20_000
	p := connect(t, f, nil, nil)
	back := p.back(t)
	for _, way := range []struct {
		l    transport.Link
		to   *Recorder
		skip int
	}{{p.link, p.accepted, 1}, {back, p.dialled, 0}} {
		var frames []byte
		for n := range uint64(count) {
			frames = append(frames, answer(n)...)
			if n%7 == 0 || n == count-1 {
				sendAll(t, way.l, frames)
				frames = frames[:0]
			}
		}
		Until(t, "all frames", func() bool { return way.to.Count() >= count+way.skip })
		for n, got := range way.to.Frames()[way.skip:] {
			if number(t, got) != uint64(n) {
				t.Fatalf("frame %d has number %d", n, number(t, got))
			}
		}
	}
}

// Many goroutines may send at once: nothing is lost, doubled or mixed, and
// each one's order holds.
func testManySenders(t *testing.T, f Fixture) {
	const senders, each = 8, 2000
	p := connect(t, f, func(d, l *transport.Options) { d.SendBuffer = 32 << 10 }, nil)
	var all sync.WaitGroup
	for s := range uint64(senders) {
		all.Go(func() {
			for n := range uint64(each) {
				sendAll(t, p.link, answer(s<<32|n))
			}
		})
	}
	all.Wait()
	Until(t, "all frames", func() bool { return p.accepted.Count() >= senders*each })
	var next [senders]uint64
	for _, got := range p.accepted.Frames() {
		s, n := number(t, got)>>32, number(t, got)&0xffffffff
		if n != next[s] {
			t.Fatalf("sender %d: number %d, want %d", s, n, next[s])
		}
		next[s]++
	}
}

// A peer that does not read fills the box: then Send says so at once. When it
// reads on, all that was taken arrives, once and in order, and each payload is
// released exactly once, also those that were refused.
func testBackPressure(t *testing.T, f Fixture) {
	for _, size := range []int{64 << 10, 512} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { fillLink(t, f, size) })
	}
}

func fillLink(t *testing.T, f Fixture, size int) {
	const box = 256 << 10
	gate := make(chan struct{})
	p := connect(t, f, func(d, l *transport.Options) { d.SendBuffer = box }, nil)
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open)
	p.accepted.OnReceive(func(transport.Link, transport.Frame) { <-gate })
	var released atomic.Int64
	payload := p.payload(size, 0xa5)
	// Full for good, not only until the link's goroutine gets its turn.
	taken, refusals, inARow := uint64(0), 0, 0
	for inARow < 20 {
		frame := (&wire.Output{Request: wire.RequestID(taken)}).Append(nil, size)
		before := released.Load()
		switch err := p.link.SendPayload(frame, payload, func() { released.Add(1) }); {
		case err == nil:
			taken++
			inARow = 0
		case errors.Is(err, transport.ErrFull):
			refusals++
			inARow++
			time.Sleep(5 * time.Millisecond)
			if released.Load() <= before {
				t.Error("a refused payload was not released before SendPayload returned")
			}
		default:
			t.Fatal(err)
		}
		if taken*uint64(size) > 256<<20 {
			t.Fatal("256 MiB were taken and nobody read them")
		}
	}
	if err := p.link.Send(bytes.Repeat(answer(1), box/len(answer(1)))); !errors.Is(err, transport.ErrFull) {
		t.Errorf("small frames on a full link: %v", err)
	}
	if p.link.Stats().SendsFull < 21 {
		t.Errorf("refusals counted: %d", p.link.Stats().SendsFull)
	}
	open()
	Until(t, "what was taken", func() bool { return p.accepted.Count() >= int(taken) })
	Until(t, "all releases", func() bool { return released.Load() == int64(taken)+int64(refusals) })
	sendAll(t, p.link, answer(99))
	Until(t, "a frame after recovery", func() bool { return p.accepted.Count() == int(taken)+1 })
	for n, got := range p.accepted.Frames()[:taken] {
		var m wire.Output
		if err := m.Decode(got.Body, 0); err != nil || m.Request != wire.RequestID(n) || !bytes.Equal(got.Payload, payload) {
			t.Fatalf("output %d: request %d, %d bytes, %v", n, m.Request, len(got.Payload), err)
		}
	}
	if n := released.Load(); n != int64(taken)+int64(refusals) {
		t.Errorf("%d releases of %d payloads", n, int(taken)+refusals)
	}
}

// What is no frame is refused and does not disturb the stream.
func testMalformedSends(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	good := answer(1)
	for name, bad := range map[string][]byte{"nothing": nil, "half a frame": good[:9], "one and a half": append(bytes.Clone(good), good[:20]...),
		"text": []byte("GET / HTTP/1.1\r\n\r\n"), "a frame that announces a payload": (&wire.Output{}).Append(nil, 5)} {
		if err := p.link.Send(bad); !errors.Is(err, transport.ErrProtocol) {
			t.Errorf("Send of %s: %v", name, err)
		}
	}
	released := 0
	if err := p.link.SendPayload((&wire.Output{}).Append(nil, 5), make([]byte, 6), func() { released++ }); !errors.Is(err, transport.ErrProtocol) || released != 1 {
		t.Errorf("payload of another length: %v, released %d times", err, released)
	}
	sendAll(t, p.link, answer(7))
	Until(t, "the good frame", func() bool { return p.accepted.Count() == 1 })
}

// A payload beyond the receiver's limit ends the link with a plain reason.
func testOversizePayload(t *testing.T, f Fixture) {
	p := connect(t, f, func(d, l *transport.Options) { l.PayloadMax = 1000 }, nil)
	released := make(chan struct{}, 2)
	for _, n := range []int{1000, 1001} {
		if err := p.link.SendPayload((&wire.Output{}).Append(nil, n), make([]byte, n), func() { released <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.accepted.AwaitClosed(t); !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("receiver: %v, want ErrProtocol", err)
	}
	if err := p.dialled.AwaitClosed(t); !errors.Is(err, transport.ErrRejected) && !errors.Is(err, transport.ErrProtocol) {
		t.Errorf("sender: %v, want to be told", err)
	}
	<-released
	<-released
	if p.accepted.Count() != 1 {
		t.Errorf("%d frames arrived, want the one within the limit", p.accepted.Count())
	}
}

// sizes surround every threshold that a transport may have.
func sizes() []int {
	out := []int{1, 63, 4096, 1 << 20, 5<<20 + 13}
	for _, edge := range []int{8 << 10, 16 << 10, 64 << 10, 128 << 10, 192 << 10} {
		out = append(out, edge-1, edge, edge+1)
	}
	return out
}

// Payloads land in the buffers that the handler gave, byte for byte, however
// large and whatever is around them.
func testPayloadBuffers(t *testing.T, f Fixture) {
	given := map[*byte]bool{}
	p := connect(t, f, nil, nil)
	p.accepted.OnBuffer(func(kind wire.Kind, n int) []byte {
		b := make([]byte, n, n+8)
		given[&b[0]] = true
		return b
	})
	hits := 0
	p.accepted.OnReceive(func(_ transport.Link, f transport.Frame) {
		if len(f.Payload) > 0 && given[&f.Payload[0]] {
			hits++
		}
	})
	passPayloads(t, p)
	p.link.Close(nil)
	p.accepted.AwaitClosed(t)
	if hits != len(sizes()) {
		t.Errorf("%d of %d payloads in the given buffers", hits, len(sizes()))
	}
}

// Without a buffer, or with one that is too short, the link has its own.
func testPayloadWithoutBuffer(t *testing.T, f Fixture) {
	p := connect(t, f, nil, nil)
	p.accepted.OnBuffer(func(kind wire.Kind, n int) []byte {
		if n%2 == 0 {
			return nil
		}
		return make([]byte, n-1)
	})
	passPayloads(t, p)
}

// passPayloads sends all sizes with small frames between them.
func passPayloads(t *testing.T, p *pair) {
	t.Helper()
	var want [][]byte
	for i, n := range sizes() {
		payload := p.payload(n, byte(i))
		want = append(want, payload)
		sendAll(t, p.link, answer(uint64(i)))
		frame := (&wire.Output{Request: wire.RequestID(i)}).Append(nil, n)
		for p.link.SendPayload(frame, payload, nil) != nil {
			Until(t, "room", func() bool { return p.accepted.Count() >= 2*i })
		}
	}
	Until(t, "all payloads", func() bool { return p.accepted.Count() == 2*len(want) })
	for i, got := range p.accepted.Frames() {
		if i%2 == 0 {
			if number(t, got) != uint64(i/2) {
				t.Fatalf("small frame %d has number %d", i/2, number(t, got))
			}
			continue
		}
		if !bytes.Equal(got.Payload, want[i/2]) {
			t.Fatalf("payload %d: %d bytes differ from the %d sent", i/2, len(got.Payload), len(want[i/2]))
		}
	}
}

// pattern is n bytes that tell where they belong.
func pattern(n int, salt byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ salt
	}
	return b
}
