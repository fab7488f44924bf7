package grpcin

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// wired is a client that speaks HTTP/2 frame by frame, to stop where no library would.
type wired struct {
	t *testing.T
	net.Conn
	data chan uint32 // streams of the data that came
}

func frameClient(t *testing.T, address string) *wired {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w := &wired{t, c, make(chan uint32, 100)}
	t.Cleanup(func() { c.Close() })
	go w.read()
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	w.frame(4, 0, 0, nil) // SETTINGS
	return w
}

// read passes over what comes, but for where data came.
func (w *wired) read() {
	defer close(w.data)
	for {
		var head [frameHead]byte
		if _, err := io.ReadFull(w, head[:]); err != nil {
			return
		}
		n := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, w, n); err != nil {
			return
		}
		if head[3] == frameData {
			w.data <- binary.BigEndian.Uint32(head[5:])
		}
	}
}

func (w *wired) frame(kind, flags byte, stream uint32, payload []byte) {
	w.t.Helper()
	n := len(payload)
	b := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	if _, err := w.Write(append(b, payload...)); err != nil {
		w.t.Fatal(err)
	}
}

// call begins one: its headers, each a literal of HPACK's.
func (w *wired) call(stream uint32, method string) {
	w.t.Helper()
	var b []byte
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/inference.GRPCInferenceService/" + method}, {":authority", "here"},
		{"content-type", "application/grpc"}, {"te", "trailers"}} {
		b = append(b, 0)
		for _, text := range h {
			b = append(append(b, byte(len(text))), text...)
		}
	}
	w.frame(1, 4, stream, b) // HEADERS, END_HEADERS
}

// message is gRPC's framing of so many bytes, of which some follow.
func message(size int, some []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), some...)
}

// A call that is cancelled, or whose client ends it, with its message half there holds nothing from then on,
// whatever else its connection is used for.
func TestCallsCancelledMidwayHoldNothing(t *testing.T) {
	k := start(t, Config{BodyTime: time.Hour})
	w := frameClient(t, k.address)
	q, err := proto.Marshal(ask("flat", "x", catalog.FP32, []int64{4}, make([]byte, 16)))
	if err != nil {
		t.Fatal(err)
	}
	w.call(1, methodStream)
	exchange := func() { // over the stream that stays
		t.Helper()
		w.frame(frameData, 0, 1, message(len(q), q))
		select {
		case stream, ok := <-w.data:
			if !ok || stream != 1 {
				t.Fatalf("data of stream %d", stream)
			}
		case <-within(t).Done():
			t.Fatal("no answer")
		}
	}
	exchange()
	const half = 10_000
	stream := uint32(1)
	for _, method := range []string{methodInfer, methodStream, "ServerLive"} {
		stream += 2
		w.call(stream, method)
		w.frame(frameData, 0, stream, message(10*half, make([]byte, half/2)))
		w.frame(frameData, 0, stream, make([]byte, half/2))
		until(t, method+": half of it is held", func() bool { return k.held.Load() == half+messageHead })
		w.frame(frameReset, 0, stream, []byte{0, 0, 0, 8}) // CANCEL
		until(t, method+": nothing is held", func() bool { return k.held.Load() == 0 })
		exchange()
		if n := k.held.Load(); n != 0 {
			t.Errorf("%s: %d bytes are held", method, n)
		}
	}
}

// What of messages will not come whole is told once, in whatever pieces it came.
func TestHalfMessages(t *testing.T) {
	b := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame := func(kind, flags byte, stream uint32, payload []byte) {
		n := len(payload)
		b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
		b = append(binary.BigEndian.AppendUint32(b, stream), payload...)
	}
	for stream := uint32(1); stream <= 13; stream += 2 {
		frame(frameCall, 0, stream, []byte("headers"))
	}
	whole := append(message(30, make([]byte, 30)), message(0, nil)...)
	frame(frameData, 0, 1, append(whole, message(100, make([]byte, 50))...)) // 55 bytes of a third
	frame(frameData, flagEnd, 3, whole)
	frame(frameReset, 0, 3, make([]byte, 4))
	frame(frameData, 0, 5, []byte{0, 0, 0})             // of a head
	frame(frameData, flagEnd, 5, []byte{0, 9, 1})       // and the rest of it, and 1 of 9
	frame(frameData, 0, 7, message(4, make([]byte, 4))) // whole
	frame(frameReset, 0, 1, make([]byte, 4))
	frame(frameReset, 0, 1, make([]byte, 4))
	padded := func(pad int, data []byte) []byte {
		return append(append([]byte{byte(pad)}, data...), make([]byte, pad)...)
	}
	frame(frameData, flagPadded, 11, padded(255, whole))
	frame(frameData, flagPadded, 11, padded(0, message(100, make([]byte, 10)))) // 15 bytes of a third
	frame(frameData, flagPadded|flagEnd, 11, padded(9, nil))
	frame(frameData, flagPadded|flagEnd, 13, []byte{7, 0, 0}) // which is against the rules: grpc-go ends it all
	frame(frameData, 0, 7, whole[:3])                         // over a stream that is open
	frame(frameCall, flagEnd, 7, []byte("trailers"))
	frame(frameData, 0, 7, whole[:3]) // over one that is over
	frame(frameData, 0, 99, whole)    // and over none
	for size := 1; size < 400; size++ {
		var f frames
		lost := 0
		for rest := b; len(rest) > 0; {
			n := min(size, len(rest))
			f.data(rest[:n])
			lost += f.lost()
			rest = rest[n:]
		}
		if lost != 55+6+15+3 || len(f.coming) != 1 || f.half != 0 { // 9, which nobody has ended
			t.Fatalf("in pieces of %d: %d bytes are lost, %d streams known and %d bytes half, want 79, 1 and 0", size, lost, len(f.coming), f.half)
		}
	}
}
