package grpcin

import "encoding/binary"

// HTTP/2's framing, as far as it takes to tell messages from what is beside them.
const (
	prefaceSize = 24 // what a client begins with
	frameHead   = 9  // a length of three bytes, a type, flags, and the stream
	frameData   = 0  // the type of frames that carry messages
	frameCall   = 1  // of those that begin a stream, or end it with more than data (HEADERS)
	frameReset  = 3  // of those that end a stream at once
	flagEnd     = 1  // of data and HEADERS: no more comes in its stream
	flagPadded  = 8  // of data: it begins with how many of its last bytes are padding

	messageHead = 5 // what gRPC puts before each message
)

// framing follows frames, in whatever pieces they come.
type framing struct {
	head [frameHead]byte
	n    int // bytes of head that have come
	left int // bytes of the frame's payload that have not
}

// next takes the first bytes of b: k of a head, or of a frame's payload. last: the frame is whole with them; its
// head stays until next is called again.
func (f *framing) next(b []byte) (k int, payload, last bool) {
	if f.n == frameHead && f.left == 0 {
		f.n = 0
	}
	if f.n < frameHead {
		k = copy(f.head[f.n:], b)
		if f.n += k; f.n == frameHead {
			f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		}
	} else {
		k, payload = min(len(b), f.left), true
		f.left -= k
	}
	return k, payload, f.n == frameHead && f.left == 0
}

// stream is the frame's.
func (f *framing) stream() uint32 { return binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31) }

// ends reports whether who sent the frame sends no more in its stream.
func (f *framing) ends() bool {
	return f.head[3] == frameReset || (f.head[3] == frameData || f.head[3] == frameCall) && f.head[4]&flagEnd != 0
}

// frames reads along what a client sends. Only what messages are made of is somebody's to wait for:
// the headers of calls and frames, windows and pings come for as long as a connection lives.
type frames struct {
	begun int // bytes of the preface that have come
	framing
	pad  int    // of a frame of data: its bytes of padding; -1: not known yet
	last uint32 // the last stream that began

	coming map[uint32]coming // streams that neither side has ended, with the message of which a part has come
	half   int               // bytes of those messages that count
	gone   int               // of half, before: bytes of messages that will not come whole
	era    int               // forget was called so often
}

// coming is a message on its way, as far as it can be told: compressed or not, its length comes first.
type coming struct {
	head   [messageHead]byte
	n      int // bytes of it that have come, its head included
	counts int // of those, what has come since frames.era was era
	era    int
}

// whole is how long it is with its head, which has come.
func (m *coming) whole() int { return messageHead + int(binary.BigEndian.Uint32(m.head[1:])) }

// data is how many bytes of b are messages'. b follows what it was called with before.
func (f *frames) data(b []byte) (sum int) {
	k := min(len(b), prefaceSize-f.begun)
	f.begun += k
	b = b[k:]
	for len(b) > 0 {
		k, payload, last := f.next(b)
		switch {
		case payload && f.head[3] == frameData:
			sum += f.take(f.unpadded(b[:k]))
		case f.n == frameHead:
			if f.pad = 0; f.head[4]&flagPadded != 0 {
				f.pad = -1
			}
		}
		if last {
			f.end()
		}
		b = b[k:]
	}
	return sum
}

// unpadded is what of b, the part of a frame's payload before the f.left bytes that are to come, is no padding.
func (f *frames) unpadded(b []byte) []byte {
	if f.pad < 0 {
		f.pad = int(b[0])
		b = b[1:]
	}
	return b[:max(0, min(len(b), len(b)+f.left-f.pad))]
}

// take follows a stream's messages through a part of its data, and returns how much of it counts: what comes over
// a stream that is over is passed over by grpc-go, too.
func (f *frames) take(b []byte) (sum int) {
	stream := f.stream()
	m, open := f.coming[stream]
	if !open {
		return 0
	}
	sum = len(b)
	f.half -= f.counted(&m)
	if m.era != f.era {
		m.counts, m.era = 0, f.era
	}
	for len(b) > 0 {
		k := 0
		if m.n < messageHead {
			k = copy(m.head[m.n:], b)
		} else {
			k = min(len(b), m.whole()-m.n)
		}
		b = b[k:]
		m.counts += k
		if m.n += k; m.n >= messageHead && m.n == m.whole() {
			m = coming{era: f.era}
		}
	}
	f.half += m.counts
	f.coming[stream] = m
	return sum
}

// counted is how many bytes of m count.
func (f *frames) counted(m *coming) int {
	if m.era != f.era {
		return 0
	}
	return m.counts
}

// end is a frame's.
func (f *frames) end() {
	stream := f.stream()
	switch {
	case f.ends():
		f.over(stream)
	case f.head[3] == frameCall && stream > f.last:
		if f.coming == nil {
			f.coming = map[uint32]coming{}
		}
		f.coming[stream] = coming{era: f.era}
	}
	if f.head[3] == frameCall {
		f.last = max(f.last, stream)
	}
}

// over ends a stream: its client has, or the server. It leaves a message that was on its way half: no handler gets it.
func (f *frames) over(stream uint32) {
	if m, open := f.coming[stream]; open {
		n := f.counted(&m)
		f.half -= n
		f.gone += n
		delete(f.coming, stream)
	}
}

// lost is how many bytes of messages that count have come since it was asked last, for nobody.
func (f *frames) lost() (n int) {
	n, f.gone = f.gone, 0
	return n
}

// forget has nothing count that has come.
func (f *frames) forget() {
	f.era++
	f.half, f.gone = 0, 0
}
