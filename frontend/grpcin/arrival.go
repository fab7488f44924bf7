package grpcin

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// arrival is a call whose message may be on its way.
type arrival struct {
	conn   *conn
	limit  *time.Timer
	ended  func() bool // forgets that over is to be called at the call's end
	cancel context.CancelFunc
	late   atomic.Bool // the time for it is over
	once   sync.Once
}

type arrivalKey struct{}

// arrivalOf is the call's.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// came is called by the call's handler when it has its message, of n bytes.
func (a *arrival) came(n int) {
	if a != nil {
		a.ended()
		a.over(n + messageHead)
	}
}

// none is called where it will have none, or its messages are counted one by one.
func (a *arrival) none() {
	if a != nil {
		a.ended()
		a.over(0)
	}
}

// message is called for each message of a stream, of n bytes.
func (a *arrival) message(n int) {
	first := false
	a.once.Do(func() {
		first = true
		a.limit.Stop()
	})
	a.conn.came(n+messageHead, first)
}

// over ends the wait for the message, once. n is its size with its head, 0 where none came whole.
func (a *arrival) over(n int) {
	a.once.Do(func() {
		a.limit.Stop()
		if a.conn != nil {
			a.conn.came(n, true)
		}
	})
}

// tap sees each call before anything is kept for it. Calls that no handler gets (an unknown method, a
// message that is none) are over when their context is.
func (s *Server) tap(ctx context.Context, _ *tap.Info) (context.Context, error) {
	a := &arrival{}
	if p, ok := peer.FromContext(ctx); ok {
		if k, ok := p.AuthInfo.(known); ok && k.conn != nil {
			a.conn = k.conn
		}
	}
	if s.held.Load() > s.cfg.HeldMax {
		return ctx, s.status("", "", s.cfg.Web.Full("too many bytes of messages are coming at a time"))
	}
	if a.conn != nil {
		a.conn.expect()
	}
	call := ctx
	ctx, a.cancel = context.WithCancel(context.WithValue(ctx, arrivalKey{}, a))
	a.limit = time.AfterFunc(time.Hour, func() {
		a.late.Store(true)
		a.cancel()
		a.over(0)
	})
	a.limit.Stop() // it is known now to who may stop it
	a.ended = context.AfterFunc(call, func() { a.over(0) })
	a.limit.Reset(s.cfg.BodyTime)
	if call.Err() != nil { // it may have been stopped before
		a.limit.Stop()
	}
	return ctx, nil
}

// tooSlow is the answer to who took too long.
func (s *Server) tooSlow() error {
	return status.Errorf(codes.DeadlineExceeded, "the call's message did not come within %v", s.cfg.BodyTime)
}
