package frontend

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fakeLink is a client's link to a scheduler that the test is: what the client sends is
// kept, what it is told goes by tell.
type fakeLink struct {
	local, remote string // hosts

	mu      sync.Mutex
	wants   []catalog.Digest
	sent    []wire.ModelID // requests'
	submits []wire.Submit
	full    bool // sends are refused
	room    int  // but for so many
	closed  error
}

func (*fakeLink) Peer() wire.Hello                { return wire.Hello{} }
func (*fakeLink) Read([]transport.ReadOp) error   { return transport.ErrClosed }
func (*fakeLink) Shift() mono.Dur                 { return 0 }
func (*fakeLink) Stats() transport.LinkStats      { return transport.LinkStats{} }
func (l *fakeLink) Hosts() (local, remote string) { return l.local, l.remote }

func (l *fakeLink) Send(frames []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full && l.room == 0 {
		return transport.ErrFull
	}
	l.room--
	for len(frames) > 0 {
		h, err := wire.ParseHeader(frames, wire.PayloadMax)
		if err != nil {
			return err
		}
		var m wire.Submit
		if h.Kind == wire.KindSubmit && m.Decode(frames[wire.HeaderSize:h.Size()], 0) == nil {
			l.sent, l.submits = append(l.sent, m.Model), append(l.submits, m)
		}
		frames = frames[h.Size():]
	}
	return nil
}

func (l *fakeLink) SendPayload(_, payload []byte, release func()) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if release != nil {
		release()
	}
	if l.full {
		return transport.ErrFull
	}
	var w catalog.Want
	if json.Unmarshal(payload, &w) == nil && w.Labels != "" {
		l.wants = append(l.wants, w.Labels)
	}
	return nil
}

func (l *fakeLink) Close(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed == nil {
		l.closed = errors.Join(transport.ErrClosed, cause)
	}
}

// asked counts the client's questions for labels.
func (l *fakeLink) asked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.wants)
}

func (l *fakeLink) want(i int) catalog.Digest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wants[i]
}

// cause is why the client closed the link; nil: it has not.
func (l *fakeLink) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// alone is a client without a scheduler: tests tell it what one would.
func alone(t testing.TB, change func(*Options)) *Client {
	t.Helper()
	o := Options{Scheduler: "inproc:nobody", Listen: "inproc:", Network: loopback.New(), ArenaBytes: 1 << 20, MaxInFlight: 16, PreprocessConcurrency: 1}
	if change != nil {
		change(&o)
	}
	c, err := newClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// of are a name's versions at this scheduler, as told last; nil: there are none.
func (u *uplink) of(name string) *versions {
	if s := u.models.Load(); s != nil {
		return s.of(name)
	}
	return nil
}

// tell is a document that comes over the link to the first scheduler.
func (c *Client) tell(l *fakeLink, kind wire.DocType, doc any) { c.uplinks[0].tell(l, kind, doc) }

func (u *uplink) tell(l *fakeLink, kind wire.DocType, doc any) {
	payload, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	frame := (&wire.Doc{Type: kind}).Append(nil, len(payload))
	u.Receive(l, transport.Frame{Kind: wire.KindDoc, Body: frame[wire.HeaderSize:], Payload: payload})
}

// lose ends the link, as its Keeper would hear of it.
func (c *Client) lose(l *fakeLink) { c.uplinks[0].Closed(l, l.cause()) }

// count is how many requests the link took.
func (l *fakeLink) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.submits)
}

func (l *fakeLink) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.submits = l.sent[:0], l.submits[:0]
}
