package grpcin

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// A stream's inferences leave nothing counted, while it is open and after: neither their messages nor
// what HTTP/2 and gRPC put around them.
func TestStreamsHoldNothing(t *testing.T) {
	k := start(t, Config{BodyTime: time.Hour})
	stream, err := k.client.ModelStreamInfer(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if err := stream.Send(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16))); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	if n := k.held.Load(); n != 0 {
		t.Errorf("%d bytes are held after 500 inferences", n)
	}
	r, err := grpc_reflection_v1.NewServerReflectionClient(k.conn).ServerReflectionInfo(within(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := r.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	watch, err := grpc_health_v1.NewHealthClient(k.conn).Watch(within(t), &grpc_health_v1.HealthCheckRequest{Service: "two"})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := k.held.Load(); n != 0 {
		t.Errorf("%d bytes are held beside open streams", n)
	}
}

// Calls that no handler gets, and a stream that ends with its message under way, hold nothing once they
// are over, long before the time for messages is.
func TestCallsWithoutHandlersHoldNothing(t *testing.T) {
	k := start(t, Config{BodyTime: time.Hour})
	for _, c := range []struct {
		method string
		code   codes.Code
	}{
		{"/inference.GRPCInferenceService/Nothing", codes.Unimplemented},
		{"/nobody/Nothing", codes.Unimplemented},
		{"/inference.GRPCInferenceService/ServerLive", codes.Internal}, // which 0xff is no message of
	} {
		var answer []byte
		if err := k.conn.Invoke(within(t), c.method, bytes.Repeat([]byte{0xff}, 10_000), &answer, grpc.ForceCodecV2(rawCodec{})); status.Code(err) != c.code {
			t.Errorf("%s: %v, want %v", c.method, err, c.code)
		}
		if _, err := grpc_health_v1.NewHealthClient(k.conn).Check(within(t), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Fatal(err)
		}
		until(t, c.method+": nothing is held", func() bool { return k.held.Load() == 0 })
	}
}

// count has n bytes of messages come over c.
func count(c *conn, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held(n)
}

// A call's end is the end of the wait for its message: nothing of it stays until the time for it is over.
func TestArrivalsEndWithTheirCalls(t *testing.T) {
	s := bare(t)
	c := &conn{s: s}
	call, end := context.WithCancel(peer.NewContext(context.Background(), &peer.Peer{AuthInfo: known{conn: c}}))
	ctx, err := s.tap(call, nil)
	if err != nil {
		t.Fatal(err)
	}
	count(c, 1000)
	if c.coming != 1 || s.held.Load() != 1000 {
		t.Fatalf("%d calls come, %d bytes are held", c.coming, s.held.Load())
	}
	end()
	until(t, "the call is over", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.coming == 0 })
	if s.held.Load() != 0 || arrivalOf(ctx).limit.Stop() {
		t.Errorf("%d bytes are held, or its timer runs on", s.held.Load())
	}
}

// What is read while the connection is closed is not counted: nobody would count it out.
func TestClosedConnectionsHoldNothing(t *testing.T) {
	s := bare(t)
	near, far := net.Pipe()
	defer far.Close()
	s.open.Add(1)
	c := &conn{Conn: near, s: s}
	count(c, 7)
	c.Close()
	count(c, 5)
	if n := s.held.Load(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}

// Messages are told from the rest in whatever pieces they come.
func TestFrames(t *testing.T) {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind byte, payload int) {
		b = append(b, 0, byte(payload>>8), byte(payload), kind, 0, 0, 0, 0, 1)
		b = append(b, make([]byte, payload)...)
	}
	want := 0
	for i := range 40 {
		frame(6, 8)   // PING
		frame(8, 4)   // WINDOW_UPDATE
		frame(1, i)   // HEADERS
		frame(4, 0)   // SETTINGS
		frame(0, i*i) // DATA
		want += i * i
	}
	for size := 1; size < 100; size++ {
		var f frames
		got := 0
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			got += f.data(rest[:n])
			rest = rest[n:]
		}
		if got != want {
			t.Fatalf("in pieces of %d: %d bytes of messages, want %d", size, got, want)
		}
	}
}
