package grpcin

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/symphony-serving/symphony/transport/mono"
)

// methodStream is the name of the call that is a stream of inferences.
const methodStream = "ModelStreamInfer"

// ModelStreamInfer: inferences over one stream. They run beside each other, Config.StreamCalls at a
// time, and are answered in the order of their requests, each with its answer or its error: a stream
// does not end because one of them fails. A client that reads no answers finds that its requests are
// not read any more, either.
//
//	receive --message--> modelStreamInfer --a goroutine each--> infer
//	                            '--order--> deliver --> client
type inferStream struct {
	s      *Server
	stream grpc.ServerStream
	order  chan chan *reply // answers to come, in the order of the requests
	gone   chan struct{}    // deliver has ended
	ended  chan error       // of receive: why no more comes; it never waits here
	unsent unsent           // answers that are there
	unread atomic.Bool      // the client took none for too long
}

// errEnding ends a stream when the server drains, once what was begun is answered.
var errEnding = status.Error(codes.Unavailable, "the server is shutting down: connect again, to another one or later")

// modelStreamInfer has the place of the handler that was made.
func modelStreamInfer(srv any, stream grpc.ServerStream) error {
	s := srv.(*Server)
	k := &inferStream{s: s, stream: stream, order: make(chan chan *reply, s.cfg.StreamCalls), gone: make(chan struct{}), ended: make(chan error, 1)}
	k.unsent = unsent{s: s, less: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	messages := make(chan *request)
	go k.receive(ctx, messages)
	go k.deliver()
	err := k.run(ctx, messages)
	if err != nil && !errors.Is(err, errEnding) { // the client is gone, and with it who waits
		cancel()
	}
	close(k.order)
	if <-k.gone; k.unread.Load() {
		return errUnread
	}
	return err
}

// run begins an inference for each message, until there are no more.
func (k *inferStream) run(ctx context.Context, messages <-chan *request) error {
	for {
		more := messages
		if k.unsent.many() {
			more = nil
		}
		select {
		case <-k.unsent.less:
		case q := <-more:
			answer := make(chan *reply, 1)
			k.order <- answer // full: the client must read
			go func() { answer <- k.answer(ctx, q) }()
		case err := <-k.ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-k.s.ending.Done():
			return errEnding
		}
	}
}

// receive reads the client's messages. It ends with the stream, which ends with its handler.
func (k *inferStream) receive(ctx context.Context, messages chan<- *request) {
	defer func() {
		if p := recover(); p != nil { // as where any handler does
			k.ended <- k.s.failed(p, methodStream)
		}
	}()
	for {
		q := k.s.request()
		err := k.stream.RecvMsg(q)
		if err != nil {
			k.s.give(q)
			k.ended <- err
			return
		}
		select {
		case messages <- q:
		case <-ctx.Done():
			k.s.give(q)
			k.ended <- status.FromContextError(ctx.Err()).Err()
			return
		}
	}
}

// answer is the answer to one message.
func (k *inferStream) answer(ctx context.Context, q *request) (r *reply) {
	s, began := k.s, mono.Now()
	defer s.give(q)
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = s.failed(p, methodStream)
		}
		if err != nil {
			r = failure(err, q.id)
		}
		ended := mono.Now()
		s.tell(ctx, q, methodStream, r, err, began, ended)
		s.metrics.observe(methodStream, err, ended.Sub(began), &q.trace)
	}()
	if r, err = s.infer(ctx, q, true); err != nil {
		err = s.status(string(q.model), string(q.version), err)
	} else if !k.unsent.add(len(r.bytes)) {
		r.free()
		s.metrics.unsent.WithLabelValues("reply").Inc()
		err = errUnsent
	} else {
		r.counted = len(r.bytes)
	}
	return r
}

// deliver sends the answers. Once one cannot be sent the client is gone, and the others are dropped.
func (k *inferStream) deliver() {
	defer close(k.gone)
	var failed error
	stalled := k.unsent.watch(k.cut)
	defer stalled.Stop()
	for answer := range k.order {
		r := <-answer
		n := r.counted
		if failed == nil {
			stalled.Reset(k.s.cfg.BodyTime)
			failed = k.stream.SendMsg(r)
			stalled.Stop()
		} else {
			r.free()
		}
		if n > 0 {
			k.unsent.sent(n)
		}
	}
}

// cut ends the stream, whatever it waits for.
func (k *inferStream) cut() {
	if a := arrivalOf(k.stream.Context()); a != nil {
		k.unread.Store(true)
		k.s.metrics.unsent.WithLabelValues("stream").Inc()
		a.cancel()
	}
}

// failure is the ModelStreamInferResponse of an inference that was refused.
func failure(err error, id []byte) *reply {
	out := protowire.AppendString(protowire.AppendTag(nil, fieldError, protowire.BytesType), status.Convert(err).Message())
	if len(id) > 0 {
		inner := protowire.AppendBytes(protowire.AppendTag(nil, fieldAnswerID, protowire.BytesType), id)
		out = protowire.AppendBytes(protowire.AppendTag(out, fieldAnswer, protowire.BytesType), inner)
	}
	return &reply{bytes: out, pool: mem.NopBufferPool{}}
}
