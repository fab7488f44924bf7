package ingress

import (
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// exchange is one request and its answer, and the memory they need.
type exchange struct {
	ctx  *fasthttp.RequestCtx
	door door

	name, versionName []byte // views of the path
	model, version    string // unescaped

	held     int64  // of Server.bodies
	bodyRead bool   // to its end
	watched  *conn  // whose pace is on
	buffer   []byte // the body's memory
	ahead    int    // bytes of the body in there, which direct has read
	batched  bool   // of direct: the shapes have a leading 1
	slab     frontend.Reservation
	scratch  []byte // tensors decoded from JSON
	request  oip.Request
	parsed   []byte // the header that request was read from by direct; empty: it was not
	reply    oip.Reply
	encoded  []byte // the reply's JSON, where it is compressed
	digits   []byte
	bound    []binding
	wanted   []wanted
	tensors  []frontend.Tensor
	answers  []*frontend.Response
	parts    [][]byte // of the reply's outputs
	shapes   []int64  // likewise
}

// pools keep what a request needs for the next.
type pools struct {
	exchanges sync.Pool
	gunzip    sync.Pool
	inflate   sync.Pool
	zlib      sync.Pool
	gzip      sync.Pool
	deflate   sync.Pool
}

// keepMax is the largest buffer that is kept for the next request.
const keepMax = 1 << 20

func (s *Server) take(ctx *fasthttp.RequestCtx) *exchange {
	x, ok := s.pools.exchanges.Get().(*exchange)
	if !ok {
		x = &exchange{}
	}
	x.ctx = ctx
	return x
}

// give returns an exchange; views of its body die here. What the next request on it may
// have in common with this one stays: the model's name, and the header that direct has
// parsed, with the request that views a copy of it.
func (s *Server) give(x *exchange) {
	s.bodies.Add(-x.held)
	s.cfg.Client.Release(&x.slab) // after a panic
	keep := func(b []byte) []byte {
		if cap(b) > keepMax {
			return nil
		}
		return b[:0]
	}
	clear(x.tensors)
	clear(x.answers)
	clear(x.reply.Outputs)
	clear(x.parts)
	if len(x.parsed) == 0 {
		x.forget()
	}
	*x = exchange{model: x.model, slab: x.slab, digits: x.digits, buffer: keep(x.buffer), scratch: keep(x.scratch), encoded: keep(x.encoded), request: x.request,
		parsed: x.parsed, parts: x.parts[:0], shapes: x.shapes[:0],
		bound: x.bound[:0], wanted: x.wanted[:0], tensors: x.tensors[:0], answers: x.answers[:0],
		reply: oip.Reply{Parameters: x.reply.Parameters[:0], Outputs: x.reply.Outputs[:0]}}
	s.pools.exchanges.Put(x)
}

// handle answers one request. It runs on its connection's goroutine.
func (s *Server) handle(ctx *fasthttp.RequestCtx, d door) {
	began := mono.Now()
	s.metrics.inFlight.Inc()
	x := s.take(ctx)
	x.door = d
	route := s.answer(x)
	if x.watched != nil {
		x.watched.pace.on = false
	}
	if !x.bodyRead && unread(ctx) {
		abandon(ctx)
	}
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	s.give(x)
	s.metrics.inFlight.Dec()
	s.metrics.observe(route, ctx.Response.StatusCode(), mono.Now().Sub(began))
}

// prefetched is how much of a body fasthttp reads by itself before the handler runs.
const prefetched = 8 << 10

// unread reports whether bytes of the body are left on the connection.
func unread(ctx *fasthttp.RequestCtx) bool {
	n := ctx.Request.Header.ContentLength()
	return n > prefetched || n == -1
}

// answer routes a request and writes the reply; it returns the route's number
// for the metrics, 0 for none.
func (s *Server) answer(x *exchange) (number int) {
	defer func() {
		if p := recover(); p != nil {
			x.forget()
			s.log.Error().Interface("panic", p).Bytes("stack", debug.Stack()).Bytes("path", x.ctx.Path()).Msg("http: a handler failed")
			(&refusal{status: 500, reason: "internal", msg: fmt.Sprintf("internal error: %v", p), close: true}).write(x.ctx)
		}
	}()
	if c, ok := x.ctx.Conn().(*conn); ok && c.over {
		r := s.full("too many connections")
		r.close = true
		r.write(x.ctx)
		return 0
	}
	r, err := s.find(x)
	if err == nil {
		number = s.metrics.number(r)
		if x.ctx.Request.Header.Peek(tooLargeMark) != nil {
			err = s.tooLarge()
		} else {
			err = r.serve(s, x)
		}
	}
	if err != nil {
		r := s.refusalOf(x, err)
		if !r.close && !x.bodyRead {
			x.swallow()
		}
		r.write(x.ctx)
	}
	return number
}

// entry finds the exchange's model.
func (s *Server) entry(x *exchange) (catalog.Entry, error) {
	return s.cfg.Client.Model(x.model, x.version)
}

// enter counts an inference in; leave counts it out.
func (s *Server) enter() error {
	if s.draining.Load() {
		return shuttingDown()
	}
	if s.running.Add(1) > int64(s.cfg.Requests) {
		s.running.Add(-1)
		return s.full("too many requests at a time")
	}
	return nil
}

func (s *Server) leave() { s.running.Add(-1) }
