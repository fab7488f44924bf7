package grpcin

// HTTP/2's framing, as far as it takes to tell messages from what is beside them.
const (
	prefaceSize = 24 // what a client begins with
	frameHead   = 9  // a length of three bytes, a type, flags, and the stream
	frameData   = 0  // the type of frames that carry messages

	messageHead = 5 // what gRPC puts before each message
)

// frames reads along what a client sends. Only what messages are made of is somebody's to wait for:
// the headers of calls and frames, windows and pings come for as long as a connection lives.
type frames struct {
	begun int // bytes of the preface that have come
	head  [frameHead]byte
	n     int // bytes of head that have come
	left  int // bytes of the frame's payload that have not
}

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
			}
		}
		b = b[k:]
		if f.n == frameHead && f.left == 0 {
			f.n = 0
		}
	}
	return sum
}
