package grpcin

import "encoding/binary"

// HTTP/2's framing, as far as it takes to tell messages from what is beside them.
const (
	prefaceSize = 24 // what a client begins with
	frameHead   = 9  // a length of three bytes, a type, flags, and the stream
	frameData   = 0  // the type of frames that carry messages
	frameReset  = 3  // of those that end a stream at once
	flagEnd     = 1  // of data: no more comes in its stream

	messageHead = 5 // what gRPC puts before each message
)

// comingMost bounds the streams of a connection with half a message. No client of gRPC's comes near it: it has
// as many calls at a time as the server lets it (Config.Calls).
const comingMost = 1 << 14

// frames reads along what a client sends. Only what messages are made of is somebody's to wait for:
// the headers of calls and frames, windows and pings come for as long as a connection lives.
type frames struct {
	begun int // bytes of the preface that have come
	head  [frameHead]byte
	n     int // bytes of head that have come
	left  int // bytes of the frame's payload that have not

	coming map[uint32]coming // messages of which a part has come, by stream
	gone   int               // bytes of those that will not come whole
}

// coming is a message on its way, as far as it can be told: compressed or not, its length comes first.
type coming struct {
	head [messageHead]byte
	n    int // bytes of it that have come, its head included
}

// whole is how long it is with its head, which has come.
func (m *coming) whole() int { return messageHead + int(binary.BigEndian.Uint32(m.head[1:])) }

// data is how many bytes of b are messages'. b follows what it was called with before.
func (f *frames) data(b []byte) (sum int) {
	k := min(len(b), prefaceSize-f.begun)
	f.begun += k
	b = b[k:]
	for len(b) > 0 {
		if f.n < frameHead {
			k = copy(f.head[f.n:], b)
			if f.n += k; f.n == frameHead {
				f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
			}
		} else {
			k = min(len(b), f.left)
			f.left -= k
			if f.head[3] == frameData {
				sum += k
				f.take(b[:k])
			}
		}
		b = b[k:]
		if f.n == frameHead && f.left == 0 {
			f.n = 0
			f.end()
		}
	}
	return sum
}

// stream is the frame's.
func (f *frames) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31) }

// take follows a stream's messages through a part of its data. Padding, which clients of gRPC's do not
// send, would be taken for a part of them.
func (f *frames) take(b []byte) {
	stream := f.stream()
	m, half := f.coming[stream]
	for len(b) > 0 {
		k := 0
		if m.n < messageHead {
			k = copy(m.head[m.n:], b)
		} else {
			k = min(len(b), m.whole()-m.n)
		}
		b = b[k:]
		if m.n += k; m.n >= messageHead && m.n == m.whole() {
			m = coming{}
		}
	}
	switch {
	case m.n > 0:
		if f.coming == nil {
			f.coming = map[uint32]coming{}
		}
		f.coming[stream] = m
	case half:
		delete(f.coming, stream)
	}
}

// end is a frame's. One that ends its stream leaves a message that was on its way half: no handler gets it.
func (f *frames) end() {
	if f.head[3] != frameReset && (f.head[3] != frameData || f.head[4]&flagEnd == 0) {
		return
	}
	if m, half := f.coming[f.stream()]; half {
		f.gone += m.n
		delete(f.coming, f.stream())
	}
}

// lost is how many bytes of messages have come since it was asked last, for nobody.
func (f *frames) lost() (n int) {
	n, f.gone = f.gone, 0
	return n
}
