package tcp_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fakeProber says the same of every connection.
type fakeProber struct {
	bound            mono.Dur
	err              error
	followed, ending atomic.Int64
}

func (p *fakeProber) Follow(conn *net.TCPConn) (func(*transport.LinkStats), func(), error) {
	if p.err != nil {
		return nil, nil, p.err
	}
	p.followed.Add(1)
	return func(st *transport.LinkStats) { st.KernelSamples, st.KernelBound = 5, p.bound }, func() { p.ending.Add(1) }, nil
}

// The bound of a link covers the heartbeats' and the prober's; both ends are
// followed, and each end of a link is told once.
func TestProber(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
	for _, c := range []struct {
		name string
		p    *fakeProber
		want func(st transport.LinkStats) bool
	}{
		{"slower than the heartbeats", &fakeProber{bound: 1000 * mono.Second},
			func(st transport.LinkStats) bool { return st.DelayBound == 1000*mono.Second && st.KernelSamples == 5 }},
		{"faster than the heartbeats", &fakeProber{bound: 1},
			func(st transport.LinkStats) bool { return st.DelayBound > 1 && st.KernelBound == 1 }},
		{"full", &fakeProber{err: errors.New("full")},
			func(st transport.LinkStats) bool { return st.DelayBound > 0 && st.KernelSamples == 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.p
			n, here, there := tcp.NewProbed(p), transporttest.NewRecorder(), transporttest.NewRecorder()
			o := transport.Options{Hello: wire.Hello{Role: wire.RoleBackend}}
			s, err := n.Listen(local, o, func(wire.Hello) (transport.Handler, error) { return there, nil })
			if err != nil {
				t.Fatal(err)
			}
			l, err := n.Dial(context.Background(), s.Address(), o, here)
			if err != nil {
				s.Close()
				t.Fatal(err)
			}
			if st := l.Stats(); !c.want(st) {
				t.Errorf("%+v", st)
			}
			l.Close(nil)
			here.AwaitClosed(t)
			there.AwaitClosed(t)
			s.Close()
			want := int64(2)
			if p.err != nil {
				want = 0
			}
			if f, e := p.followed.Load(), p.ending.Load(); f != want || e != want {
				t.Errorf("%d followed, %d ended, want %d of each", f, e, want)
			}
		})
	}
}
