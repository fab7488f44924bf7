package tcp_test

import (
	"io"
	"net"
	"testing"

	"github.com/symphony-serving/symphony/transport/loopback"
	"github.com/symphony-serving/symphony/transport/tcp"
	"github.com/symphony-serving/symphony/transport/transporttest"
	"github.com/symphony-serving/symphony/transport/wire"
)

// places are the transports to compare.
func places() map[string]transporttest.Place {
	return map[string]transporttest.Place{"tcp": {Network: tcp.New(), Address: local}, "inproc": {Network: loopback.New(), Address: "inproc:"}}
}

func each(b *testing.B, run func(*testing.B, transporttest.Place)) {
	for name, p := range places() {
		b.Run(name, func(b *testing.B) { run(b, p) })
	}
}

func BenchmarkOneWay(b *testing.B)    { each(b, transporttest.BenchOneWay) }
func BenchmarkReadBatch(b *testing.B) { each(b, transporttest.BenchReadBatch) }

func BenchmarkPingPong(b *testing.B) {
	each(b, transporttest.BenchPingPong)
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

// A round trip allocates nothing once the buffers have grown.
func TestSteadyStateAllocations(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate")
	}
	for name, p := range places() {
		r := testing.Benchmark(func(b *testing.B) { transporttest.BenchPingPong(b, p) })
		if n := r.AllocsPerOp(); n != 0 {
			t.Errorf("%s: %d allocations a round trip", name, n)
		}
	}
}
