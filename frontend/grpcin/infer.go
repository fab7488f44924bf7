package grpcin

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// timeoutMax is the longest parameters.timeout, an hour, in microseconds.
const timeoutMax = int64(time.Hour / time.Microsecond)

// methodInfer is the name of the call that is one inference.
const methodInfer = "ModelInfer"

// modelInfer serves ModelInfer. It has the place of the handler that was made.
func modelInfer(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	s, began := srv.(*Server), mono.Now()
	q := s.request()
	defer s.give(q)
	r, err := s.answerInfer(ctx, q, decode)
	ended := mono.Now()
	s.tell(ctx, q, methodInfer, r, err, began, ended)
	s.metrics.observe(methodInfer, err, ended.Sub(began), &q.trace)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// answerInfer takes the message and answers it.
func (s *Server) answerInfer(ctx context.Context, q *request, decode func(any) error) (r *reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = s.failed(p, methodInfer)
		}
	}()
	a := arrivalOf(ctx)
	if err = decode(q); err == nil {
		a.came(q.bytes)
	} else {
		a.none()
	}
	switch {
	case err != nil && a != nil && a.late.Load():
		return nil, s.tooSlow()
	case err != nil:
		return nil, err
	}
	if r, err = s.infer(ctx, q, false); err != nil {
		return nil, s.status(string(q.model), string(q.version), err)
	}
	return r, nil
}

// request takes a spare one.
func (s *Server) request() *request {
	if q, ok := s.requests.Get().(*request); ok {
		return q
	}
	return new(request)
}

// give makes it a spare one.
func (s *Server) give(q *request) {
	s.cfg.Client.Release(&q.slab) // after a panic
	q.reset()
	s.requests.Put(q)
}

// infer asks, waits, and composes the reply; streamed: as a ModelStreamInferResponse.
func (s *Server) infer(ctx context.Context, q *request, streamed bool) (r *reply, err error) {
	if err := s.cfg.Web.Enter(); err != nil {
		return nil, err
	}
	defer s.cfg.Web.Leave()
	s.sample(ctx, q)
	if q.err != nil {
		return nil, badRequest(q.err)
	}
	entry, err := s.cfg.Client.Choose(string(q.model), string(q.version))
	if err != nil {
		return nil, err
	}
	spec, began, counted := &entry.Spec, mono.Now(), false
	defer func() { s.cfg.Web.Failed(spec, err, began, counted) }()
	b, err := q.bind(spec, s.cfg.Web)
	if err == nil {
		err = q.choose(spec)
	}
	if err == nil && q.timeout > timeoutMax {
		err = oip.Errorf("parameters.timeout", "%d microseconds, at most %d (an hour)", q.timeout, timeoutMax)
	}
	if err != nil {
		return nil, err
	}
	if err := s.reachable(ctx, q, b); err != nil {
		return nil, err
	}
	held, err := s.hold(q, spec, b.items)
	if err != nil {
		return nil, err
	}
	defer func() {
		if held > 0 && r != nil && len(r.bytes) >= int(held)/4 && !streamed { // counted until it is sent
			var c *conn
			if a := arrivalOf(ctx); a != nil {
				c = a.conn
			}
			s.keep(r, held, c)
			return
		}
		s.cfg.Web.Unhold(held)
	}()
	s.cfg.Web.Asked(spec, string(q.version), q.timeout, b.items)
	if err = s.ask(ctx, q, spec, b); err == nil {
		spec.Version = q.answers[0].Version
		q.outcome.Take(q.answers)
	}
	if err != nil {
		return nil, err
	}
	counted = s.cfg.Web.Record(spec, q.answers)
	defer func() {
		for _, a := range q.answers { // the reply has copies
			a.Release()
		}
	}()
	for i := range q.wanted {
		if q.wanted[i].classes > 0 {
			if q.labels, err = s.cfg.Web.Labels(spec); err != nil {
				return nil, err
			}
			break
		}
	}
	if err := s.deposit(q); err != nil {
		return nil, err
	}
	return s.compose(q, spec, b, streamed)
}

// ask runs the items and waits for their answers, in order.
func (s *Server) ask(ctx context.Context, q *request, spec *catalog.ModelSpec, b batch) error {
	timeout := time.Duration(q.timeout) * time.Microsecond
	if b.items == 1 {
		return s.askOne(ctx, q, spec, timeout)
	}
	copied := int64(q.copied(b))
	if err := s.cfg.Web.EnterItems(b.items, copied); err != nil {
		return err
	}
	defer s.cfg.Web.LeaveItems(b.items, copied)
	tensors, err := q.items(b, s.cfg.Web.Regions())
	if q.drop(); err != nil {
		return err
	}
	model, version := string(q.model), string(q.version)
	if _, err := s.cfg.Web.Settle(model, version, spec); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx) // with the first item that fails the others are for nothing
	defer cancel()
	r := frontend.Request{Model: spec.Name, Version: spec.Version, Any: version == "", Timeout: timeout, Priority: wire.Priority(q.priority), Class: ingress.ClassOf(q.effort), Trace: q.trace.Trace, Source: sourceOf(ctx)}
	j := ingress.NewJoin(b.items)
	for k := range b.items {
		r.Inputs = tensors[k*len(q.bound) : (k+1)*len(q.bound)]
		s.cfg.Client.InferAsync(ctx, r, func(answer *frontend.Response, err error) { j.Take(k, answer, err) })
	}
	answers, err := j.Wait()
	if err == nil {
		q.answers = append(q.answers[:0], answers...)
	}
	return frontend.Together(err, spec, b.items, timeout)
}

// askOne asks for one item, whose tensors go from where they came to straight into the slab.
func (s *Server) askOne(ctx context.Context, q *request, spec *catalog.ModelSpec, timeout time.Duration) error {
	if err := s.cfg.Web.Reserve(&q.slab, string(q.model), string(q.version), spec); err != nil {
		return err
	}
	if len(q.slab.Input) != offset(spec, len(spec.Inputs)) { // another catalogue came meanwhile
		s.cfg.Client.Release(&q.slab)
		return errChanged
	}
	err := q.fill(q.slab.Input, s.cfg.Web.Regions())
	if q.drop(); err != nil {
		s.cfg.Client.Release(&q.slab)
		return err
	}
	q.slab.Trace, q.slab.Priority, q.slab.Class = q.trace.Trace, wire.Priority(q.priority), ingress.ClassOf(q.effort)
	q.slab.Source = sourceOf(ctx)
	answer, err := s.cfg.Client.InferReserved(ctx, &q.slab, timeout)
	if err == nil {
		q.answers = append(q.answers[:0], answer)
	}
	return err
}
