package rdmalink_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/rdma"
	"github.com/symphony-serving/symphony/rdma/fakeverbs"
	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/rdmalink"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// meter counts frames; with echo it sends each back.
type meter struct {
	n, want int
	echo    bool
	reached chan struct{}
	closed  chan struct{}
	frame   []byte
}

func newMeter(echo bool) *meter {
	return &meter{echo: echo, reached: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (m *meter) Receive(l transport.Link, f transport.Frame) {
	if m.echo {
		m.frame = (&wire.Answer{}).Append(m.frame[:0])
		l.Send(m.frame)
		return
	}
	if m.n++; m.n == m.want {
		m.n = 0
		m.reached <- struct{}{}
	}
}
func (m *meter) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (m *meter) Closed(transport.Link, error)                         { close(m.closed) }

// ways are what is compared: TCP's own links, the same below this package, and
// lanes over a device in software (which shows our own cost, not a device's).
func ways(b *testing.B) map[string]transport.Network {
	nic, err := rdma.Open(fakeverbs.New(fakeverbs.Config{}).Host("a"), rdma.Config{GIDIndex: -1})
	if err != nil {
		b.Fatal(err)
	}
	n := rdmalink.New(rdmalink.Config{TCP: tcp.New(), NIC: nic})
	b.Cleanup(func() {
		if err := errors.Join(n.Close(), nic.Close()); err != nil {
			b.Error(err)
		}
	})
	return map[string]transport.Network{"tcp": tcp.New(), "without device": rdmalink.New(rdmalink.Config{TCP: tcp.New()}), "lane": n}
}

func benchLink(b *testing.B, n transport.Network, there, here *meter, slabs *transporttest.Slabs) transport.Link {
	b.Helper()
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}}
	if slabs != nil {
		o.Slabs = slabs
	}
	s, err := n.Listen(local, o, func(wire.Hello) (transport.Handler, error) { return there, nil })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if slabs != nil {
		slabs.Serve(s, n)
	}
	o.Slabs = nil
	l, err := n.Dial(b.Context(), s.Address(), o, here)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close(nil); <-here.closed })
	return l
}

// One record after the other, one way.
func BenchmarkOneWay(b *testing.B) {
	for name, net := range ways(b) {
		b.Run(name, func(b *testing.B) {
			there := newMeter(false)
			there.want = b.N
			l := benchLink(b, net, there, newMeter(false), nil)
			frame := (&wire.Submit{}).Append(nil)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				for l.Send(frame) != nil {
					runtime.Gosched()
				}
			}
			<-there.reached
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// There and back, one at a time.
func BenchmarkPingPong(b *testing.B) {
	for name, net := range ways(b) {
		b.Run(name, func(b *testing.B) {
			here := newMeter(false)
			here.want = 1
			l := benchLink(b, net, newMeter(true), here, nil)
			frame := (&wire.Answer{}).Append(nil)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := l.Send(frame); err != nil {
					b.Fatal(err)
				}
				<-here.reached
			}
		})
	}
}

// Batches of 8 inputs of 150 KB each (Appendix B of the paper), one batch at a time.
func BenchmarkReadBatch(b *testing.B) {
	const batch, size = 8, 150 << 10
	for name, net := range ways(b) {
		b.Run(name, func(b *testing.B) {
			slabs := transporttest.NewSlabs(batch, size)
			l := benchLink(b, net, newMeter(false), newMeter(false), slabs)
			ops, wait := readBatch(slabs)
			b.SetBytes(batch * size)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := l.Read(ops); err != nil {
					b.Fatal(err)
				}
				wait()
			}
		})
	}
}

// readBatch are the READs of all slabs, and a wait for the last of them.
func readBatch(slabs *transporttest.Slabs) (ops []transport.ReadOp, wait func()) {
	left := make(chan error, slabs.Count())
	done := func(_ uint64, err error) { left <- err }
	for i := range slabs.Count() {
		op := slabs.Op(i)
		op.Done = done
		ops = append(ops, op)
	}
	return ops, func() {
		for range ops {
			if err := <-left; err != nil {
				panic(err)
			}
		}
	}
}

// What a request costs on a lane does not allocate: frames, outputs, READs.
func TestLaneDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	slabs := transporttest.NewSlabs(8, 5000)
	j := join(t, rdmalink.Config{}, slabs)
	frame := (&wire.Answer{}).Append(nil)
	big := (&wire.Output{}).Append(nil, 20<<10)
	payload := j.buffers.Alloc(20 << 10)
	ops, wait := readBatch(slabs)
	j.there.unchecked.Store(true)
	released := make(chan struct{}, 1)
	release := func() { released <- struct{}{} }
	round := func() {
		j.link.Send(frame)
		j.link.SendPayload(big, payload, release)
		<-released
		j.link.Read(ops)
		wait()
	}
	for range 1000 { // rings and tables have grown by then
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0.1 { // heartbeats and timers of the test itself
		t.Errorf("%v allocations a round", n)
	}
}
