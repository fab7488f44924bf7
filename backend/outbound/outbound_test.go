package outbound

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/outbound/parts"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// pipe is a link that holds what it is given until the test lets it leave, and is full when the test says so.
type pipe struct {
	transport.Link
	mu       sync.Mutex
	frames   []wire.Output
	payloads [][]byte
	releases []func()
	err      error // of each send
}

func (p *pipe) Send(frames []byte) error { return p.SendPayload(frames, nil, nil) }

func (p *pipe) SendPayload(frame, payload []byte, release func()) error {
	p.mu.Lock()
	err := p.err
	if err == nil {
		var m wire.Output
		h, _ := wire.ParseHeader(frame, wire.PayloadMax)
		if e := m.Decode(frame[wire.HeaderSize:h.Size()], 0); e != nil {
			panic(e)
		}
		p.frames, p.payloads = append(p.frames, m), append(p.payloads, bytes.Clone(payload))
		if release != nil {
			p.releases = append(p.releases, release)
		}
	}
	p.mu.Unlock()
	if err != nil && release != nil {
		release()
	}
	return err
}

// leave lets up to n payloads leave.
func (p *pipe) leave(n int) (left int) {
	p.mu.Lock()
	some := p.releases[:min(n, len(p.releases))]
	p.releases = append([]func(){}, p.releases[len(some):]...)
	p.mu.Unlock()
	for _, f := range some {
		f()
	}
	return len(some)
}

func (p *pipe) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *pipe) sent() []wire.Output {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]wire.Output{}, p.frames...)
}

// ledger counts what becomes of outputs.
type ledger struct {
	mu       sync.Mutex
	released int
	lost     map[Cause]int
}

func (g *ledger) output(id int, data []byte, budget mono.Dur) Output {
	return Output{Head: wire.Output{Request: wire.RequestID(id)}, Data: data, Deadline: mono.Now().Add(budget),
		Release: func() { g.mu.Lock(); g.released++; g.mu.Unlock() },
		Lost: func(_ *Output, c Cause) {
			g.mu.Lock()
			if g.lost == nil {
				g.lost = map[Cause]int{}
			}
			g.lost[c]++
			g.mu.Unlock()
		}}
}

func (g *ledger) is(released int, c Cause, lost int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.released == released && g.lost[c] == lost
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func pattern(seed, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)*31 ^ byte(seed)
	}
	return b
}

// Outputs of many sizes, more than a link takes, sent by several goroutines: each arrives once, whole and in
// order, is let go once, and nothing is left.
func TestAllArrive(t *testing.T) {
	defer goleak.VerifyNone(t)
	seed := uint64(time.Now().UnixNano())
	s, p, g := New(0), &pipe{}, &ledger{}
	const senders, each = 4, 25
	var all sync.WaitGroup
	for k := range senders {
		r := rand.New(rand.NewPCG(seed, uint64(k)))
		all.Go(func() {
			for i := range each {
				id := 1 + k*each + i
				s.Send(p, g.output(id, pattern(id, 1+r.IntN(6*parts.Size)), mono.Dur(60+r.IntN(60))*mono.Second))
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 99))
	eventually(t, "not all were let go", func() bool {
		p.fail(nil)
		if r.IntN(4) == 0 {
			p.fail(transport.ErrFull)
		}
		p.leave(1 + r.IntN(3))
		return g.is(senders*each, CauseLink, 0)
	})
	all.Wait()
	got := map[wire.RequestID][]byte{}
	for i, m := range p.frames {
		if m.Total != 0 && int(m.Offset) != len(got[m.Request]) {
			t.Fatalf("seed %d: byte %d of request %d where %d is next", seed, m.Offset, m.Request, len(got[m.Request]))
		}
		got[m.Request] = append(got[m.Request], p.payloads[i]...)
	}
	for id := 1; id <= senders*each; id++ {
		if b := got[wire.RequestID(id)]; !bytes.Equal(b, pattern(id, len(b))) || len(b) == 0 {
			t.Errorf("seed %d: request %d has %d bytes, or others", seed, id, len(b))
		}
	}
	if !s.Idle() {
		t.Error("something is left")
	}
}

// A small output with little time goes out while a large one waits for the link to take the rest of it.
func TestSmallOvertakesLarge(t *testing.T) {
	s, p, g := New(0), &pipe{}, &ledger{}
	s.Send(p, g.output(1, make([]byte, 64<<20), 60*mono.Second))
	if s.Direct(p, 10) || !s.Direct(&pipe{}, 10) {
		t.Error("past a line that waits, or not past that of another link")
	}
	before := len(p.sent())
	s.Send(p, g.output(2, make([]byte, 4000), 20*mono.Millisecond))
	if f := p.sent(); len(f) != before+1 || f[before].Request != 2 || before > parts.Window/parts.Size {
		t.Errorf("%d parts were handed over before the small one, which waits: %v", before, len(f) == before)
	}
	for p.leave(10) > 0 {
	}
	if !g.is(2, CauseExpired, 0) || !s.Idle() || !s.Direct(p, 10) {
		t.Errorf("%+v, idle %v", g, s.Idle())
	}
}

// What a link never takes is given up after its deadline; where some of it was taken its frontend is told so.
func TestExpired(t *testing.T) {
	s, p, g := New(0), &pipe{}, &ledger{}
	s.Send(p, g.output(1, make([]byte, 64<<20), 5*mono.Millisecond))
	s.Send(p, g.output(2, make([]byte, parts.Size), 6*mono.Millisecond))
	eventually(t, "they are kept for ever", func() bool { return g.is(0, CauseExpired, 2) || g.is(1, CauseExpired, 2) })
	eventually(t, "the frontend waits for the rest", func() bool {
		f := p.sent()
		return f[len(f)-1].Request == 1 && f[len(f)-1].Reason == wire.ReasonDeadline
	})
	for p.leave(10) > 0 {
	}
	if !g.is(2, CauseExpired, 2) || !s.Idle() {
		t.Errorf("%+v, idle %v", g, s.Idle())
	}
}

// What waits for a link that ends is given up at once, and let go when the link has let its part go.
func TestLinkEnds(t *testing.T) {
	s, p, g := New(0), &pipe{}, &ledger{}
	for i := range 3 {
		s.Send(p, g.output(i+1, make([]byte, 64<<20), 60*mono.Second))
	}
	p.fail(transport.ErrClosed)
	for p.leave(10) > 0 {
	}
	if !g.is(3, CauseLink, 3) || !s.Idle() {
		t.Errorf("%+v, idle %v", g, s.Idle())
	}
	s.Send(p, g.output(4, make([]byte, 10), 60*mono.Second))
	if !g.is(4, CauseLink, 4) {
		t.Errorf("%+v: of a link that has ended", g)
	}
}

// A link that other messages have filled does not say when it has room: it is asked again. A reason waits, too.
func TestLinkFullOfOthers(t *testing.T) {
	s, p, g := New(0), &pipe{}, &ledger{}
	p.fail(transport.ErrFull)
	reason := g.output(1, nil, 60*mono.Second)
	reason.Head.Reason = wire.ReasonExecution
	s.Send(p, reason)
	s.Send(p, g.output(2, make([]byte, 10), 60*mono.Second))
	if len(p.sent()) != 0 || s.Idle() {
		t.Fatal("sent by a link that is full")
	}
	p.fail(nil)
	eventually(t, "nothing is sent any more", func() bool { return len(p.sent()) == 2 })
	for p.leave(10) > 0 {
	}
	if f := p.sent(); f[0].Reason != wire.ReasonExecution || !g.is(2, CauseLink, 0) {
		t.Errorf("%v, %+v", f, g)
	}
}

// What waits is bounded, by number and by bytes.
func TestBounds(t *testing.T) {
	s, p, g := New(1000), &pipe{}, &ledger{}
	if !s.Reserve(600) || s.Reserve(401) || !s.Reserve(400) || s.Held() != 1000 {
		t.Errorf("%d bytes of %d are held", s.Held(), s.Max())
	}
	p.fail(transport.ErrFull)
	for i := range parts.Max + 3 {
		s.Send(p, g.output(i+1, make([]byte, 1), 60*mono.Second))
	}
	if !g.is(3, CauseMany, 3) {
		t.Errorf("%+v", g)
	}
	p.fail(transport.ErrClosed)
	eventually(t, "they are kept", func() bool { return g.is(parts.Max+3, CauseLink, parts.Max) })
}
