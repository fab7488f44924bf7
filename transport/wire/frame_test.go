package wire

import (
	"bytes"
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

func TestParseHeaderRefuses(t *testing.T) {
	good := (&Submit{}).Append(nil)
	change := func(at int, to byte) []byte {
		b := bytes.Clone(good)
		b[at] = to
		return b
	}
	cases := []struct {
		name  string
		frame []byte
		want  error
	}{
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), ErrMagic},
		{"TLS hello", []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03ABCDEFGH"), ErrMagic},
		{"version", change(1, 9), ErrVersion},
		{"body length", change(7, 0xff), ErrLength},
		{"payload length", change(11, 0xff), ErrLength},
		{"kind", change(2, 77), ErrChecksum},
		{"flags", change(3, 1), ErrChecksum},
		{"checksum", change(12, good[12]^1), ErrChecksum},
		{"body", change(len(good)-1, 1), ErrChecksum},
	}
	for _, c := range cases {
		if _, _, err := Scan(c.frame, PayloadMax); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// A Reject of another version can be read: the layout of both is for ever.
func TestRejectOfAnotherVersion(t *testing.T) {
	frame := (&Reject{Version: 9, Text: "speak 9"}).Append(nil)
	frame[1] = 9
	h, _, err := Scan(frame, 0)
	if !errors.Is(err, ErrVersion) || h.Version != 9 || h.Kind != KindReject {
		t.Fatalf("%+v, %v", h, err)
	}
	var r Reject
	if err := r.Decode(frame[HeaderSize:h.Size()]); err != nil || r.Text != "speak 9" {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestPayloadMaxIsTheReaders(t *testing.T) {
	frame := (&Output{}).Append(nil, 1000)
	if _, _, err := Scan(frame, 1000); err != nil {
		t.Error(err)
	}
	for _, most := range []int{999, 0, -1} {
		if _, _, err := Scan(frame, most); !errors.Is(err, ErrLength) {
			t.Errorf("payload of 1000 with at most %d: %v", most, err)
		}
	}
}

func TestCount(t *testing.T) {
	one := (&Submit{}).Append(nil)
	three := (&Leave{}).Append((&Answer{}).Append((&Submit{}).Append(nil)))
	cases := []struct {
		b  []byte
		n  int
		ok bool
	}{{one, 1, true}, {three, 3, true}, {nil, 0, false}, {three[:len(three)-1], 2, false},
		{one[:5], 0, false}, {append([]byte("GET / HTTP/1.1  "), one...), 0, false}, {(&Output{}).Append(nil, 9), 0, false}}
	for i, c := range cases {
		if n, ok := Count(c.b); n != c.n || ok != c.ok {
			t.Errorf("case %d: %d %v, want %d %v", i, n, ok, c.n, c.ok)
		}
	}
}

func TestNoAllocation(t *testing.T) {
	b := Batch{Items: make([]BatchItem, 64)}
	s, d, o, r, a := Submit{}, Done{}, Output{}, Read{}, Answer{}
	l, ld := Load{Op: OpLoad, Generation: 1}, Loaded{Op: OpLoad}
	dst := make([]byte, 0, BodyMax)
	var back Batch
	back.Items = make([]BatchItem, 0, 64)
	step := func() {
		if err := back.Decode(b.Append(dst)[HeaderSize:], 5); err != nil {
			t.Fatal(err)
		}
		e1 := s.Decode(s.Append(dst)[HeaderSize:], 5)
		e2 := d.Decode(d.Append(dst)[HeaderSize:], 5)
		e3 := o.Decode(o.Append(dst, 3)[HeaderSize:], 5)
		e4 := r.Decode(r.Append(dst)[HeaderSize:])
		e5 := a.Decode(a.Append(dst)[HeaderSize:])
		_, _, e6 := Scan(s.Append(dst), 0)
		e7 := l.Decode(l.Append(dst)[HeaderSize:], 5)
		e8 := ld.Decode(ld.Append(dst)[HeaderSize:], 5)
		if err := errors.Join(e1, e2, e3, e4, e5, e6, e7, e8); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(200, step); n != 0 {
		t.Fatalf("%v allocations, want 0", n)
	}
}

// FuzzDecode: no body of any kind panics, and what decodes survives a second
// round trip.
func FuzzDecode(f *testing.F) {
	for _, m := range specimens() {
		f.Add(uint8(m.kind), m.frame[HeaderSize:], int64(12345))
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte, shift int64) {
		for _, m := range specimens() {
			if m.kind != Kind(kind) {
				continue
			}
			v, err := m.decode(body, mono.Dur(shift))
			if err != nil {
				if !errors.Is(err, ErrShort) && !errors.Is(err, ErrValue) {
					t.Fatalf("%s: untyped error %v", m.name, err)
				}
				return
			}
			checkAgain(t, m, v)
		}
	})
}

// checkAgain encodes what was decoded and decodes it once more.
func checkAgain(t *testing.T, m message, v any) {
	var frame []byte
	switch v := v.(type) {
	case Submit:
		frame = v.Append(nil)
	case Batch:
		frame = v.Append(nil)
	case Done:
		frame = v.Append(nil)
	case Output:
		frame = v.Append(nil, 7)
	case Read:
		frame = v.Append(nil)
	case Load:
		frame = v.Append(nil)
	case Loaded:
		frame = v.Append(nil)
	case Member:
		frame = v.Append(nil)
	case Hello:
		frame = v.Append(nil)
	case Pong:
		frame = v.Append(nil)
	case LaneOffer:
		frame = v.Append(nil)
	case LaneDown:
		frame = v.Append(nil)
	default:
		return
	}
	h, need, err := Scan(frame, PayloadMax)
	if err != nil || need != 0 {
		t.Fatalf("%s: %+v %d %v", m.name, h, need, err)
	}
	again, err := m.decode(frame[HeaderSize:], 0)
	if err != nil || !equal(again, v) {
		t.Fatalf("%s: %+v became %+v, %v", m.name, v, again, err)
	}
}

func equal(a, b any) bool {
	x, ok := a.(Batch)
	if !ok {
		return a == b
	}
	y := b.(Batch)
	if len(x.Items) != len(y.Items) {
		return false
	}
	for i := range x.Items {
		if x.Items[i] != y.Items[i] {
			return false
		}
	}
	x.Items, y.Items = nil, nil
	return x.Epoch == y.Epoch && x.Batch == y.Batch && x.Exec == y.Exec && x.Until == y.Until && x.GPU == y.GPU && x.Latest == y.Latest && x.Generation == y.Generation
}

// FuzzFrames: a stream cut anywhere gives the same frames as the whole.
func FuzzFrames(f *testing.F) {
	var stream []byte
	for _, m := range specimens() {
		h, _, _ := Scan(m.frame, PayloadMax)
		if h.Payload == 0 {
			stream = append(stream, m.frame...)
		}
	}
	f.Add(stream, uint8(1))
	f.Add(stream[:100], uint8(7))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		whole, wholeErr := split(stream, len(stream))
		parts, partErr := split(stream, int(chunk)+1)
		if len(whole) != len(parts) || (wholeErr == nil) != (partErr == nil) {
			t.Fatalf("whole: %d frames, %v; in chunks of %d: %d frames, %v", len(whole), wholeErr, chunk, len(parts), partErr)
		}
	})
}

// split feeds the stream in chunks, as a socket would, and returns the kinds.
func split(stream []byte, chunk int) (kinds []Kind, err error) {
	var buf []byte
	for len(stream) > 0 {
		n := min(max(chunk, 1), len(stream))
		buf, stream = append(buf, stream[:n]...), stream[n:]
		for {
			h, need, err := Scan(buf, 1<<10)
			if err != nil {
				return kinds, err
			}
			if need > 0 || len(buf) < h.Size()+h.Payload {
				break
			}
			kinds = append(kinds, h.Kind)
			buf = buf[h.Size()+h.Payload:]
		}
	}
	return kinds, nil
}

func BenchmarkSubmit(b *testing.B) {
	m := Submit{Request: 1, Deadline: 5}
	dst := make([]byte, 0, 256)
	for b.Loop() {
		frame := m.Append(dst)
		if _, _, err := Scan(frame, 0); err != nil {
			b.Fatal(err)
		}
		if err := m.Decode(frame[HeaderSize:], 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBatch16(b *testing.B) {
	m := Batch{Items: make([]BatchItem, 16)}
	dst := make([]byte, 0, 4096)
	for b.Loop() {
		frame := m.Append(dst)
		if _, _, err := Scan(frame, 0); err != nil {
			b.Fatal(err)
		}
		if err := m.Decode(frame[HeaderSize:], 0); err != nil {
			b.Fatal(err)
		}
	}
}
