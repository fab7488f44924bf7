package ingress

import (
	"fmt"
	"runtime/debug"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// handle answers one request. It runs on its connection's goroutine.
func (s *Server) handle(ctx *fasthttp.RequestCtx, d door) {
	began := mono.Now()
	s.metrics.inFlight.Inc()
	x := s.take(ctx)
	x.door, x.began = d, began
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
	ended := mono.Now()
	trace := x.trace
	if s.Tells(&trace) {
		s.tell(x, route, began, ended)
	}
	s.give(x)
	s.metrics.inFlight.Dec()
	s.metrics.observe(route, ctx.Response.StatusCode(), ended.Sub(began), &trace)
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
	}
	if refused := s.refusedFor(x); refused != nil { // also where there is no such path: its body follows
		err = refused
	} else if err == nil {
		err = r.serve(s, x)
	}
	if err != nil {
		r := s.refusalOf(x.model, x.version, err)
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

// chosen finds the model that the exchange's request goes to: without a version in the path it
// takes its turn of the versions' shares.
func (s *Server) chosen(x *exchange) (catalog.Entry, error) {
	return s.cfg.Client.Choose(x.model, x.version)
}

// Settle chooses again where the version that was chosen for a request has gone, or its devices
// have, while the request came. model and version are what was asked for. An error is the answer.
func (s *Server) Settle(model, version string, spec *catalog.ModelSpec) (changed bool, err error) {
	if version != "" {
		return false, nil
	}
	if e, err := s.cfg.Client.Model(spec.Name, spec.Version); err == nil && e.Ready {
		return false, nil
	}
	e, err := s.cfg.Client.Choose(model, version)
	switch {
	case err != nil:
		return false, err
	case !e.Ready || e.Spec.Version == spec.Version: // its refusal says why
		return false, nil
	case !spec.SameTensors(&e.Spec) || !spec.SameImages(&e.Spec):
		return false, justChanged()
	}
	spec.Version = e.Spec.Version
	return true, nil
}

// Reserve takes a slab for one item of a request for the model and version that were asked for, of
// which spec was chosen. An error is the answer.
func (s *Server) Reserve(slab *frontend.Reservation, model, version string, spec *catalog.ModelSpec) error {
	err := s.cfg.Client.Reserve(slab, spec.Name, spec.Version)
	if err != nil {
		changed, other := s.Settle(model, version, spec)
		if other != nil {
			return other
		}
		if changed {
			err = s.cfg.Client.Reserve(slab, spec.Name, spec.Version)
		}
	}
	slab.Any = version == ""
	return err
}

// Enter counts an inference in, of whatever protocol; Leave counts it out. An error is the answer.
func (s *Server) Enter() error {
	if s.draining.Load() {
		return shuttingDown()
	}
	if s.running.Add(1) > int64(s.cfg.Requests) {
		s.running.Add(-1)
		return s.full("too many requests at a time")
	}
	return nil
}

// Leave is Enter's.
func (s *Server) Leave() { s.running.Add(-1) }
