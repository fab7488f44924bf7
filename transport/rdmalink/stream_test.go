package rdmalink

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport"
	"github.com/symphony-serving/symphony/transport/wire"
)

// scroll is a sink that writes down what it gets. It has a buffer for some
// payloads: which is decided by the body alone, so it is the same for every cut.
type scroll struct {
	light  bool // no frame of the control plane may come now
	frames []string
	dst    []byte
	wrong  error
}

func (s *scroll) buffer(kind wire.Kind, body []byte, n int) ([]byte, error) {
	switch (int(kind) + n) % 4 {
	case 0:
		s.dst = nil
	case 1:
		s.dst = make([]byte, n)
	case 2:
		s.dst = make([]byte, n+100)
	case 3:
		s.dst = make([]byte, n/2) // too short: not used
	}
	return s.dst, nil
}

func (s *scroll) frame(kind wire.Kind, body, payload []byte) error {
	if len(payload) > 0 && len(s.dst) >= len(payload) && &s.dst[0] != &payload[0] {
		s.wrong = fmt.Errorf("a payload of %d bytes is not where it was wanted", len(payload))
	}
	if s.light && kind >= wire.KindDoc && kind < wire.KindSubmit {
		s.wrong = fmt.Errorf("a frame of kind %d was handled as if it were quick", kind)
	}
	s.frames = append(s.frames, fmt.Sprintf("%d %x %x", kind, body, payload))
	return nil
}

const scrollMax = 1 << 16 // bytes of a payload

// unrolled is what wire makes of the whole.
func unrolled(b []byte) (frames []string, broken bool) {
	for {
		h, need, err := wire.Scan(b, scrollMax)
		if err != nil {
			return frames, true
		}
		if need > 0 || len(b) < h.Size()+h.Payload {
			return frames, false
		}
		frames = append(frames, fmt.Sprintf("%d %x %x", h.Kind, b[wire.HeaderSize:h.Size()], b[h.Size():h.Size()+h.Payload]))
		b = b[h.Size()+h.Payload:]
	}
}

// composed makes a stream of what a fuzzer wrote: frames of several kinds, some
// with payloads, then as many of its bytes as they are.
func composed(script []byte) []byte {
	var b []byte
	for i := 0; i+2 < len(script) && script[i] != 0xff; i += 3 {
		n := int(script[i+1])<<8>>2 | int(script[i+2])
		switch script[i] % 6 {
		case 0:
			b = (&wire.Leave{Epoch: wire.Epoch(n)}).Append(b)
		case 1:
			b = (&wire.Answer{Request: wire.RequestID(n)}).Append(b)
		case 2:
			b = append((&wire.Output{Request: wire.RequestID(n)}).Append(b, n), bytes.Repeat([]byte{script[i+2]}, n)...)
		case 3:
			b = append((&wire.LaneData{Sequence: uint64(n)}).Append(b, n), bytes.Repeat([]byte{byte(n)}, n)...)
		case 4:
			b = append((&wire.Doc{Type: 1}).Append(b, n), bytes.Repeat([]byte{byte(n)}, n)...)
		case 5: // damage
			if len(b) > 0 {
				b[len(b)-1-n%len(b)] ^= script[i] | 1
			}
		}
	}
	if i := bytes.IndexByte(script, 0xff); i >= 0 {
		b = append(b, script[i+1:]...)
	}
	return b
}

// check feeds a stream in the given cuts and compares.
func check(t *testing.T, b []byte, cut func(left int) int) {
	t.Helper()
	want, broken := unrolled(b)
	got := &scroll{}
	s := stream{payloadMax: scrollMax, sink: got}
	var err error
	for left := b; len(left) > 0 && err == nil; {
		n := max(1, min(cut(len(left)), len(left)))
		message := bytes.Clone(left[:n]) // what it holds is gone once it is fed
		// As the polling thread does it, and then whoever takes over.
		got.light = true
		var rest []byte
		if rest, err = s.feed(message, true); err == nil && len(rest) > 0 {
			got.light = false
			_, err = s.feed(rest, false)
		}
		clear(message)
		left = left[n:]
	}
	if broken != (err != nil) || err != nil && !errors.Is(err, transport.ErrProtocol) {
		t.Fatalf("ended with %v, the whole is broken: %v", err, broken)
	}
	if fmt.Sprint(got.frames) != fmt.Sprint(want) {
		t.Fatalf("%d frames, want %d\n%.300s\n%.300s", len(got.frames), len(want), got.frames, want)
	}
	if got.wrong != nil {
		t.Fatal(got.wrong)
	}
}

// The frames that come out do not depend on how the bytes were cut into messages,
// and are those that wire finds in the whole.
func FuzzStream(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 0, 2, 2, 1, 3, 3, 2, 0, 1, 0, 9}, uint64(1))
	f.Add([]byte{2, 255, 255, 2, 0, 0, 0, 0, 7}, uint64(2))
	f.Add([]byte{1, 0, 1, 2, 1, 0, 4, 0, 40, 1, 0, 3}, uint64(3))
	f.Add(append([]byte{1, 0, 1, 0xff}, "GET / HTTP/1.1\r\n\r\n"...), uint64(4))
	f.Add(append([]byte{0xff}, (&wire.Output{}).Append(nil, scrollMax+1)...), uint64(5))
	f.Fuzz(func(t *testing.T, script []byte, seed uint64) {
		if len(script) > 300 {
			return // longer ones are more of the same
		}
		b := composed(script)
		r := rand.New(rand.NewPCG(seed, 0))
		check(t, b, func(left int) int { return left })
		check(t, b, func(int) int { return 1 + r.IntN(1+r.IntN(64)) })
		check(t, b, func(int) int { return 1 + r.IntN(16<<10) })
		if len(b) < 4<<10 {
			check(t, b, func(int) int { return 1 })
		}
	})
}

// A frame that lies whole in one message is handed on where it lies.
func TestWholeFramesAreNotCopied(t *testing.T) {
	b := append((&wire.Output{}).Append(nil, 5), "bytes"...)
	in := &whereabouts{of: b}
	s := stream{payloadMax: scrollMax, sink: in}
	if _, err := s.feed(b, false); err != nil || in.inside != 1 {
		t.Errorf("%v, %d frames handed on in place", err, in.inside)
	}
}

// whereabouts counts frames whose body and payload lie in one piece of memory.
type whereabouts struct {
	of     []byte
	inside int
}

func (w *whereabouts) buffer(wire.Kind, []byte, int) ([]byte, error) { return nil, nil }

func (w *whereabouts) frame(_ wire.Kind, body, payload []byte) error {
	if &body[0] == &w.of[wire.HeaderSize] && &payload[0] == &w.of[len(w.of)-len(payload)] {
		w.inside++
	}
	return nil
}

// An error of the sink ends the feeding, wherever in the message it comes.
func TestSinkErrorEndsTheStream(t *testing.T) {
	frame := (&wire.Leave{Epoch: 1}).Append(nil)
	for _, cut := range []int{1, len(frame) - 1, len(frame), 3 * len(frame)} {
		r := &refuser{after: 2}
		s := stream{payloadMax: scrollMax, sink: r}
		var err error
		for left := bytes.Repeat(frame, 3); len(left) > 0 && err == nil; {
			n := min(cut, len(left))
			_, err = s.feed(left[:n], false)
			left = left[n:]
		}
		if !errors.Is(err, errRefused) || r.frames != 2 {
			t.Errorf("cut at %d: %v after %d frames", cut, err, r.frames)
		}
	}
}

var errRefused = errors.New("refused")

type refuser struct{ after, frames int }

func (r *refuser) buffer(wire.Kind, []byte, int) ([]byte, error) { return nil, nil }

func (r *refuser) frame(wire.Kind, []byte, []byte) error {
	if r.frames++; r.frames >= r.after {
		return errRefused
	}
	return nil
}
