package rdmalink_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// choked is TCP whose dialled links take no word of a kind about lanes, once it is full: as where
// payloads that are too large for a lane fill the socket.
type choked struct {
	transport.Network
	kind wire.Kind
	full atomic.Bool
}

func (c *choked) Dial(ctx context.Context, address string, o transport.Options, h transport.Handler) (transport.Link, error) {
	w := &chokedHandler{Handler: h, of: c}
	l, err := c.Network.Dial(ctx, address, o, w)
	if err != nil {
		return nil, err
	}
	return w.wrap(l), nil
}

// chokedHandler hands the link on as Dial does.
type chokedHandler struct {
	transport.Handler
	of   *choked
	once sync.Once
	link transport.Link
}

func (h *chokedHandler) wrap(l transport.Link) transport.Link {
	h.once.Do(func() { h.link = &chokedLink{l, h.of} })
	return h.link
}

func (h *chokedHandler) Buffer(l transport.Link, kind wire.Kind, body []byte, n int) []byte {
	return h.Handler.Buffer(h.wrap(l), kind, body, n)
}
func (h *chokedHandler) Receive(l transport.Link, f transport.Frame) { h.Handler.Receive(h.wrap(l), f) }
func (h *chokedHandler) Closed(l transport.Link, err error)          { h.Handler.Closed(h.wrap(l), err) }
func (h *chokedHandler) PayloadMax(l transport.Link, kind wire.Kind) int {
	return h.Handler.(transport.Limiter).PayloadMax(h.wrap(l), kind)
}

type chokedLink struct {
	transport.Link
	of *choked
}

func (l *chokedLink) Send(frames []byte) error {
	if h, err := wire.ParseHeader(frames, wire.PayloadMax); err == nil && h.Kind == l.of.kind && l.of.full.Load() {
		return transport.ErrFull
	}
	return l.Link.Send(frames)
}

// A lane is lost, and the peer cannot be told: the link ends at once, with that reason, and not when
// the peer, which waits for the word, takes us for a rogue. A dead link answers what is open on it.
func TestLaneDownThatIsRefused(t *testing.T) {
	narrow := &choked{Network: tcp.New(), kind: wire.KindLaneDown}
	j := join(t, rdmalink.Config{TCP: narrow, Retry: 5 * mono.Millisecond}, nil)
	transporttest.Until(t, "a lane", func() bool { return j.lanes() == 1 })
	narrow.full.Store(true)
	j.fabric.Host("a").NIC("fake0").FailNext(0, rdma.StatusGeneral)
	if err := j.link.Send((&wire.Answer{}).Append(nil)); err != nil {
		t.Fatal(err)
	}
	transporttest.Until(t, "the end", func() bool { return j.here.closed.Load() != nil })
	if err := *j.here.closed.Load(); !strings.Contains(err.Error(), "the peer cannot be told") {
		t.Errorf("the link ended with %v", err)
	}
}

// A lane is up, and the peer cannot be told: it would wait for ever, and no other would be tried.
func TestLaneUpThatIsRefused(t *testing.T) {
	narrow := &choked{Network: tcp.New(), kind: wire.KindLaneUp}
	narrow.full.Store(true)
	f := newFake(t, rdmalink.Config{TCP: narrow})
	_, there := f.host(t, "b", rdmalink.Config{})
	here := &counted{t: t}
	listener, err := there.Listen(local, transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}}, func(wire.Hello) (transport.Handler, error) { return &counted{t: t}, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	l, err := f.net.Dial(t.Context(), listener.Address(), transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}, here)
	if err != nil {
		t.Fatal(err)
	}
	defer finish(t, l, here)
	transporttest.Until(t, "the end", func() bool { return here.closed.Load() != nil })
	if err := *here.closed.Load(); !strings.Contains(err.Error(), "the peer cannot be told") {
		t.Errorf("the link ended with %v", err)
	}
}
