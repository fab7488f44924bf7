package tcp_test

import (
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// counter counts frames; echo sends each back.
type counter struct {
	n, want int
	echo    bool
	reached chan struct{}
	closed  chan struct{}
	frame   []byte
}

func newCounter(echo bool) *counter {
	return &counter{echo: echo, reached: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (c *counter) Receive(l transport.Link, f transport.Frame) {
	if c.echo {
		c.frame = (&wire.Answer{}).Append(c.frame[:0])
		l.Send(c.frame)
		return
	}
	if c.n++; c.n == c.want {
		c.n = 0
		c.reached <- struct{}{}
	}
}
func (c *counter) Buffer(transport.Link, wire.Kind, []byte, int) []byte { return nil }
func (c *counter) Closed(transport.Link, error)                         { close(c.closed) }

// networks are the transports to compare.
func networks() map[string]struct {
	n transport.Network
	a string
} {
	return map[string]struct {
		n transport.Network
		a string
	}{"tcp": {tcp.New(), local}, "inproc": {loopback.New(), "inproc:"}}
}

func benchLink(b *testing.B, n transport.Network, address string, there, here *counter, slabs transport.SlabSource) transport.Link {
	b.Helper()
	o := transport.Options{Hello: wire.Hello{Role: wire.RoleFrontend}, Slabs: slabs}
	s, err := n.Listen(address, o, func(wire.Hello) (transport.Handler, error) { return there, nil })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	l, err := n.Dial(b.Context(), s.Address(), o, here)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close(nil); <-here.closed })
	return l
}

// One record after the other, one way: how many a link carries in a second.
func BenchmarkOneWay(b *testing.B) {
	for name, net := range networks() {
		b.Run(name, func(b *testing.B) {
			there := newCounter(false)
			there.want = b.N
			l := benchLink(b, net.n, net.a, there, newCounter(false), nil)
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
	for name, net := range networks() {
		b.Run(name, func(b *testing.B) {
			here := newCounter(false)
			here.want = 1
			l := benchLink(b, net.n, net.a, newCounter(true), here, nil)
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
	b.Run("bare", barePingPong)
}

// barePingPong is the floor: the same bytes over the same kernel, one blocked
// goroutine a side and nothing else.
func barePingPong(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	frame := (&wire.Answer{}).Append(nil)
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, len(frame))
	b.ResetTimer()
	for range b.N {
		c.Write(frame)
		if _, err := io.ReadFull(c, buf); err != nil {
			b.Fatal(err)
		}
	}
}

// A batch's inputs: 8 of 150 KB, as in the papers' incast.
func BenchmarkRead8x150KB(b *testing.B) {
	const n, size = 8, 150_000
	for name, net := range networks() {
		b.Run(name, func(b *testing.B) {
			slabs := transporttest.NewSlabs(n, size)
			l := benchLink(b, net.n, net.a, newCounter(false), newCounter(false), slabs)
			done := make(chan error, n)
			ops := make([]transport.ReadOp, n)
			for i := range ops {
				ops[i] = transport.ReadOp{Request: wire.RequestID(i), Input: wire.SlabRef{Handle: wire.MakeSlabHandle(uint32(i), 1), Length: size},
					Dst: make([]byte, size), Done: func(_ uint64, err error) { done <- err }}
			}
			b.SetBytes(n * size)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if err := l.Read(ops); err != nil {
					b.Fatal(err)
				}
				for range n {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// A round trip allocates nothing once the buffers have grown.
func TestSteadyStateAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate")
	}
	for name, net := range networks() {
		r := testing.Benchmark(func(b *testing.B) {
			here := newCounter(false)
			here.want = 1
			l := benchLink(b, net.n, net.a, newCounter(true), here, nil)
			frame := (&wire.Answer{}).Append(nil)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				l.Send(frame)
				<-here.reached
			}
		})
		if n := r.AllocsPerOp(); n != 0 {
			t.Errorf("%s: %d allocations a round trip", name, n)
		}
	}
}
