package transporttest

import (
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Place is a transport to measure, and where to listen on it.
type Place struct {
	Network transport.Network
	Address string
}

// meter is a Handler that counts frames, or sends each back.
type meter struct {
	n, want int
	echo    bool
	reached chan struct{}
	closed  chan struct{}
	frame   []byte
}

func newMeter(echo bool) *meter {
	return &meter{echo: echo, want: 1, reached: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Receive implements transport.Handler.
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

// Buffer implements transport.Handler.
func (m *meter) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }

// Closed implements transport.Handler.
func (m *meter) Closed(transport.Link, error) { close(m.closed) }

// benchLink is the dialled end of a link whose handlers are there and here.
func benchLink(b *testing.B, p Place, there, here *meter, slabs *Slabs) transport.Link {
	b.Helper()
	o := options(wire.RoleFrontend, "bench")
	if slabs != nil {
		o.Slabs = slabs
	}
	s, err := p.Network.Listen(p.Address, o, func(wire.Hello) (transport.Handler, error) { return there, nil })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	if slabs != nil {
		slabs.Serve(s, p.Network)
	}
	l, err := p.Network.Dial(b.Context(), s.Address(), options(wire.RoleBackend, "bench"), here)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close(nil); <-here.closed })
	return l
}

// BenchOneWay sends one record after the other, one way: how many a link carries
// in a second.
func BenchOneWay(b *testing.B, p Place) {
	there := newMeter(false)
	there.want = b.N
	l := benchLink(b, p, there, newMeter(false), nil)
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
}

// BenchPingPong goes there and back, one frame at a time.
func BenchPingPong(b *testing.B, p Place) {
	here := newMeter(false)
	l := benchLink(b, p, newMeter(true), here, nil)
	frame := (&wire.Answer{}).Append(nil)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := l.Send(frame); err != nil {
			b.Fatal(err)
		}
		<-here.reached
	}
}

// BenchReadBatch READs a batch's inputs, 8 of 150 KB as in the papers' incast, one
// batch at a time.
func BenchReadBatch(b *testing.B, p Place) {
	const n, size = 8, 150_000
	slabs := NewSlabs(n, size)
	l := benchLink(b, p, newMeter(false), newMeter(false), slabs)
	ops, wait := slabs.Batch()
	b.SetBytes(n * size)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := l.Read(ops); err != nil {
			b.Fatal(err)
		}
		if err := wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// Batch are the READs of all slabs, and a wait for the last of them.
func (s *Slabs) Batch() (ops []transport.ReadOp, wait func() error) {
	left := make(chan error, s.Count())
	done := func(_ uint64, err error) { left <- err }
	for i := range s.Count() {
		op := s.Op(i)
		op.Done = done
		ops = append(ops, op)
	}
	return ops, func() error {
		var first error
		for range ops {
			if err := <-left; err != nil && first == nil {
				first = err
			}
		}
		return first
	}
}
