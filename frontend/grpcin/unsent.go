package grpcin

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Replies of a stream wait for those before them and for their client to read. What waits is bounded
// twice. A stream with much of it begins no more inferences. And where all streams together have too
// much, further replies are errors, and streams whose client takes nothing for BodyTime are ended.

// unsentShare is which part of UnsentMax a stream may have before it begins no more.
const unsentShare = 64

var (
	errUnsent = status.Error(codes.ResourceExhausted, "too many bytes of replies wait for clients of streams to read them: the inference has run, and its reply is dropped; read faster, or ask again later")
	// errUnread is for the log: the client is told CANCELLED, which is grpc-go's word for a stream that is cut.
	errUnread = status.Error(codes.ResourceExhausted, "the stream is ended: its replies were not read, and too many bytes of replies wait")
)

// unsent are the replies of a stream that wait.
type unsent struct {
	s     *Server
	bytes atomic.Int64
	less  chan struct{} // has one whenever bytes became less
}

// add counts a reply in; false: there are too many, and it is not counted.
func (u *unsent) add(n int) bool {
	for {
		all := u.s.unsent.Load()
		if all+int64(n) > u.s.cfg.UnsentMax {
			return false
		}
		if u.s.unsent.CompareAndSwap(all, all+int64(n)) {
			break
		}
	}
	u.bytes.Add(int64(n))
	return true
}

// sent counts a reply out.
func (u *unsent) sent(n int) {
	u.s.unsent.Add(-int64(n))
	u.bytes.Add(-int64(n))
	select {
	case u.less <- struct{}{}:
	default:
	}
}

// many reports whether the stream must wait for its client.
func (u *unsent) many() bool { return u.bytes.Load() > u.s.cfg.UnsentMax/unsentShare }

// watch calls end where a reply is not taken for BodyTime and the server is half full of such. The timer
// is to be reset before each reply and stopped after.
func (u *unsent) watch(end func()) *time.Timer {
	var t *time.Timer
	t = time.AfterFunc(time.Hour, func() {
		if u.s.unsent.Load() > u.s.cfg.UnsentMax/2 {
			end()
			return
		}
		t.Reset(u.s.cfg.BodyTime)
	})
	t.Stop()
	return t
}
