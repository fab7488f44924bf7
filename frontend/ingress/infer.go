package ingress

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/wire"
)

// timeoutMax is the longest parameters.timeout, an hour, in microseconds.
const timeoutMax = int64(time.Hour / time.Microsecond)

// headerLength tells where the JSON of a request ends and its binary tensors begin.
const headerLength = "Inference-Header-Content-Length"

// infer serves POST .../infer.
func (s *Server) infer(x *exchange) (err error) {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	s.sample(x)
	entry, err := s.chosen(x)
	if err != nil { // before the body: nobody sends 64 MiB to be told of a misspelt name
		return err
	}
	spec := &entry.Spec
	counted := false
	defer func() { s.Failed(spec, err, x.began, counted) }()
	var answers []*frontend.Response
	b := batch{items: 1}
	filled, err := s.direct(x, &entry)
	switch {
	case err != nil:
		return err
	case filled:
		b.batched = x.batched
		if err := s.holdOutputs(x, spec, 1); err != nil {
			return err
		}
		s.Asked(spec, x.version, x.request.Timeout, 1)
		answers, err = s.askDirect(x)
	default:
		if answers, err = s.inferWhole(x, spec, &b); answers == nil {
			return err
		}
	}
	if err == nil {
		spec.Version = answers[0].Version
	}
	if err != nil {
		return err
	}
	counted = s.Record(spec, answers)
	if err := s.label(x, spec); err != nil {
		return err
	}
	err = x.compose(spec, b, answers)
	if err == nil {
		err = s.deposit(x)
	}
	if err != nil {
		return err
	}
	if x.outputs > 0 {
		return s.sendLarge(x, answers)
	}
	err = s.send(x)
	for _, a := range answers { // the reply has copies
		a.Release()
	}
	return err
}

// inferWhole reads the body as a whole, and asks. Answers are nil where nobody was asked.
func (s *Server) inferWhole(x *exchange, spec *catalog.ModelSpec, b *batch) ([]*frontend.Response, error) {
	body, err := s.body(x)
	if err != nil {
		return nil, err
	}
	if err := s.parse(x, spec, body); err != nil {
		return nil, err
	}
	if *b, err = s.bind(x, spec); err != nil {
		return nil, err
	}
	x.wanted = x.wanted[:0]
	if err := x.choose(spec); err != nil {
		return nil, err
	}
	if err := s.reachable(x, *b); err != nil {
		return nil, err
	}
	if err := s.holdOutputs(x, spec, b.items); err != nil {
		return nil, err
	}
	s.Asked(spec, x.version, x.request.Timeout, b.items)
	return s.ask(x, spec, *b)
}

// parse reads the infer request out of the body.
func (s *Server) parse(x *exchange, spec *catalog.ModelSpec, body []byte) error {
	const name = headerLength
	x.forget()
	header, rest := body, []byte(nil)
	if text := x.ctx.Request.Header.Peek(name); text != nil {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 63)
		if err != nil {
			return badRequest("%s: %q is no number of bytes", name, text)
		}
		if n > uint64(len(body)) {
			return badRequest("%s: %d bytes announced, the body has only %d", name, n, len(body))
		}
		if n == 0 {
			return x.raw(spec, body)
		}
		header, rest = body[:n], body[n:]
	}
	if len(header) == 0 {
		return badRequest("the body is empty: send the inference request as JSON")
	}
	if err := x.request.ParseRequest(header, rest); err != nil {
		return err
	}
	x.understood = true
	if x.request.Timeout > timeoutMax {
		return oip.Errorf("parameters.timeout", "%d microseconds, at most %d (an hour)", x.request.Timeout, timeoutMax)
	}
	return nil
}

// raw takes the whole body as the single input of one item. Who sends no JSON reads tensors, too: outputs
// are binary.
func (x *exchange) raw(spec *catalog.ModelSpec, body []byte) error {
	if len(spec.Inputs) != 1 {
		return badRequest("Inference-Header-Content-Length: 0 means that the body is the only input; model %s has %d", spec.Name, len(spec.Inputs))
	}
	in := &spec.Inputs[0]
	if int64(len(body)) != in.ByteSize() {
		return badRequest("the body is the input %q: it has %d bytes, %s%v takes %d", in.Name, len(body), in.Type, in.Shape, in.ByteSize())
	}
	shape := append([]int64{}, in.Shape...)
	if spec.MaxBatch > 0 {
		shape = append([]int64{1}, shape...)
	}
	x.request.Inputs = append(x.request.Inputs[:0], oip.Input{Name: []byte(in.Name), Type: in.Type, Shape: shape, Binary: body})
	x.request.BinaryOutputs = true
	return nil
}

// ClassOf is a request's class.
func ClassOf(bestEffort bool) wire.Class {
	if bestEffort {
		return wire.ClassBestEffort
	}
	return wire.ClassLatency
}

// ask runs the items and waits for their answers, in order.
func (s *Server) ask(x *exchange, spec *catalog.ModelSpec, b batch) ([]*frontend.Response, error) {
	if b.items == 1 {
		return s.askOne(x, spec)
	}
	if _, err := s.Settle(x.model, x.version, spec); err != nil {
		return nil, err
	}
	if err := s.EnterItems(b.items, 0); err != nil { // the decoded tensors are held already
		return nil, err
	}
	defer s.LeaveItems(b.items, 0)
	tensors := x.items(b)
	timeout := time.Duration(x.request.Timeout) * time.Microsecond
	ctx := context.Background() // the lookout cancels by id
	r := frontend.Request{Model: spec.Name, Version: spec.Version, Any: x.version == "", Timeout: timeout, Priority: wire.Priority(x.request.Priority), Class: ClassOf(x.request.BestEffort), Trace: x.trace.Trace, Source: x.ctx.ConnID()}
	j := NewJoin(b.items)
	ids := s.await(x, x.began, b.items)
	defer x.over()
	for k := range b.items {
		r.ID = &ids[k]
		r.Inputs = tensors[k*len(x.bound) : (k+1)*len(x.bound)]
		s.cfg.Client.InferAsync(ctx, r, func(answer *frontend.Response, err error) { j.Take(k, answer, err) })
	}
	answers, err := j.Wait()
	if err != nil { // the others are for nothing
		for k := range ids {
			if id := ids[k].Load(); id != 0 {
				s.cfg.Client.Cancel(wire.RequestID(id))
			}
		}
	}
	return answers, frontend.Together(err, spec, b.items, timeout)
}

// askOne asks for one item of a body that was read as a whole.
func (s *Server) askOne(x *exchange, spec *catalog.ModelSpec) ([]*frontend.Response, error) {
	if err := s.Reserve(&x.slab, x.model, x.version, spec); err != nil {
		return []*frontend.Response{}, err
	}
	if len(x.slab.Input) != place(spec, "") { // another catalogue came meanwhile
		s.cfg.Client.Release(&x.slab)
		return nil, justChanged()
	}
	for i := range x.bound {
		copy(x.slab.Input[place(spec, x.bound[i].spec.Name):], x.bound[i].data)
	}
	return s.askDirect(x)
}

// askDirect asks for the inference whose input is in the slab.
func (s *Server) askDirect(x *exchange) ([]*frontend.Response, error) {
	x.slab.Trace, x.slab.Priority, x.slab.Class = x.trace.Trace, wire.Priority(x.request.Priority), ClassOf(x.request.BestEffort)
	x.slab.Source = x.ctx.ConnID()
	x.slab.ID = &s.await(x, x.began, 1)[0]
	defer x.over()
	answer, err := s.cfg.Client.InferReserved(context.Background(), &x.slab, time.Duration(x.request.Timeout)*time.Microsecond)
	x.answers = append(x.answers[:0], answer)
	return x.answers, err
}

// compose makes the reply's outputs and parameters from the answers.
func (x *exchange) compose(spec *catalog.ModelSpec, b batch, answers []*frontend.Response) error {
	r := &x.reply
	r.Model, r.Version, r.ID = spec.Name, spec.Version, x.request.ID
	x.outcome.Take(answers)
	r.Parameters = x.outcome.AppendTimes(r.Parameters[:0])
	if x.request.Details {
		id := IDs(answers)
		r.Parameters = append(r.Parameters, oip.Parameter{Name: DetailsParameter, Text: id})
		if len(answers) == 1 { // a large batch's would be more than clients take as a header
			x.ctx.Response.Header.Set(requestHeader, id)
		}
	}
	for _, w := range x.wanted {
		out := oip.Result{Name: w.spec.Name, Type: w.spec.Type, Shape: w.spec.Shape, Binary: w.binary, Region: w.region}
		first := len(x.parts)
		for _, a := range answers {
			t := pick(a.Outputs, w)
			if t == nil {
				return &refusal{status: 500, reason: "execution", msg: fmt.Sprintf("the backend sent no output %q", w.spec.Name)}
			}
			data := t.Data
			if w.classes > 0 {
				data = Classes(t, w.classes, x.labels)
			}
			x.parts = append(x.parts, data)
		}
		out.Parts = x.parts[first:]
		if w.classes > 0 {
			out.Type, out.Shape = catalog.Bytes, []int64{min(int64(w.classes), w.spec.Elements())}
		}
		if b.batched {
			first := len(x.shapes)
			x.shapes = append(append(x.shapes, int64(b.items)), out.Shape...)
			out.Shape = x.shapes[first:]
		}
		r.Outputs = append(r.Outputs, out)
	}
	return nil
}

// pick finds an output; they come in the model's order.
func pick(outputs []frontend.Tensor, w wanted) *frontend.Tensor {
	if w.index < len(outputs) && outputs[w.index].Name == w.spec.Name {
		return &outputs[w.index]
	}
	for i := range outputs {
		if outputs[i].Name == w.spec.Name {
			return &outputs[i]
		}
	}
	return nil
}
