//go:build linux && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package netprobe_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/netprobe"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sink takes frames; the first shows its link.
type sink struct {
	link   chan transport.Link
	once   sync.Once
	closed chan struct{}
}

func newSink() *sink { return &sink{link: make(chan transport.Link, 1), closed: make(chan struct{})} }

func (s *sink) Receive(l transport.Link, _ transport.Frame)          { s.once.Do(func() { s.link <- l }) }
func (s *sink) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (s *sink) Closed(transport.Link, error)                         { close(s.closed) }

// slabs serve every READ with the same bytes.
type slabs struct{ data []byte }

func (s *slabs) Pin(wire.SlabRef, wire.RequestID) ([]byte, error) { return s.data, nil }
func (s *slabs) Unpin(wire.SlabRef)                               {}

// join makes a probed link through the cable, with no heartbeat but those of
// the handshake. Both ends' links are returned.
func (b *lab) join(t *testing.T, p *netprobe.Probe, o transport.Options) (near, far transport.Link) {
	t.Helper()
	n, here, there := tcp.NewProbed(p), newSink(), newSink()
	o.Heartbeat, o.Hello = 3600*mono.Second, wire.Hello{Role: wire.RoleBackend}
	var ln transport.Listener
	err := b.far.do(func() (err error) {
		ln, err = n.Listen("tcp:"+farIP+":0", o, func(wire.Hello) (transport.Handler, error) { return there, nil })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = b.near.do(func() (err error) {
		near, err = n.Dial(context.Background(), ln.Address(), o, here)
		return err
	})
	if err != nil {
		ln.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close(nil)
		<-here.closed
		ln.Close()
	})
	near.Send((&wire.Answer{}).Append(nil))
	return near, <-there.link
}

// work does what a backend does, until the test ends: it pulls inputs, and
// sends records.
func work(t *testing.T, l transport.Link, length int) {
	var records []byte
	for len(records) < 12<<10 {
		records = (&wire.Answer{}).Append(records)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	var all sync.WaitGroup
	t.Cleanup(func() {
		close(stop)
		all.Wait()
	})
	all.Go(func() {
		op := transport.ReadOp{Input: wire.SlabRef{Length: uint32(length)}, Dst: make([]byte, length),
			Done: func(_ uint64, err error) { done <- err }}
		for {
			l.Send(records)
			if l.Read([]transport.ReadOp{op}); <-done != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// A link's DelayBound follows the network between two heartbeats, at both of
// its ends.
func TestLinkDelayBound(t *testing.T) {
	checkLeaks(t)
	const length = 16 << 10
	p := open(t, netprobe.Options{Window: mono.Second})
	b := newLab(t)
	t.Cleanup(func() {
		if watched, refused := p.Counts(); watched != 0 || refused != 0 {
			t.Errorf("after the links: %d watched, %d refused", watched, refused)
		}
	})
	o := transport.Options{Slabs: &slabs{make([]byte, length)}}
	near, far := b.join(t, p, o)
	// The handshake's samples stay for good here: on a busy machine they may be
	// too slow to see anything beneath.
	for range 50 {
		if max(near.Stats().DelayBound, far.Stats().DelayBound) < 2*mono.Millisecond {
			break
		}
		near, far = b.join(t, p, o)
	}
	work(t, near, length)
	beats := [2]int{near.Stats().Samples, far.Stats().Samples}
	for i, l := range []transport.Link{near, far} {
		b.delay.Store(0)
		await(t, "small at first", l.Stats, func(st transport.LinkStats) bool {
			return st.KernelSamples >= 10 && st.KernelBound < 4*mono.Millisecond && st.DelayBound < 4*mono.Millisecond
		})
		b.delay.Store(int64(5 * time.Millisecond))
		await(t, "5 ms each way", l.Stats, func(st transport.LinkStats) bool {
			return st.KernelBound > 4500*mono.Microsecond && st.KernelRTT > 8*mono.Millisecond && st.DelayBound >= st.KernelBound
		})
		b.delay.Store(0)
		st := await(t, "small again", l.Stats, func(st transport.LinkStats) bool { return st.DelayBound < 4*mono.Millisecond })
		if st.Samples != beats[i] {
			t.Errorf("end %d: %d heartbeats in the window, %d at first: it may have been theirs", i, st.Samples, beats[i])
		}
	}
}
