package ingress

import (
	"bufio"
	"context"
	"net"
	"runtime"
	"testing"

	"github.com/valyala/fasthttp"
)

// BenchmarkIdleConnections reports what a connection costs that has had a reply and
// waits for the next request. (The client's end is in it, with a few hundred bytes.)
func BenchmarkIdleConnections(b *testing.B) {
	each := 0
	for b.Loop() {
		each = idleBytes(b, 5000)
	}
	b.ReportMetric(float64(each), "B/connection")
}

// idleBytes is the memory of heap and stacks for each of n idle connections.
func idleBytes(t testing.TB, n int) int {
	t.Helper()
	s, err := New(Config{Client: newInstant()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer func() {
		if err := s.Drain(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	request, _ := bodies()
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	r := bufio.NewReader(nil)
	var reply fasthttp.Response
	before := inUse()
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
		r.Reset(c)
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := reply.Read(r); err != nil || reply.StatusCode() != 200 {
			t.Fatalf("%d, %v", reply.StatusCode(), err)
		}
	}
	return int(inUse()-before) / n
}

func inUse() uint64 {
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
