package ingress

import (
	"cmp"
	"encoding/hex"
	"time"

	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Account is a request and its answer, of whichever protocol, for the access log and the tracer. It
// is made in two steps, because most requests are told to nobody: Wants needs the first part alone.
type Account struct {
	Protocol string // "http", "grpc"
	Route    string // what was asked for, in HTTP's word: "infer"
	Status   int    // of the protocol
	Refused  bool
	Began    mono.Time
	Ended    mono.Time
	Trace    tracing.Context // zero: it is not sampled
	Outcome  Outcome         // zero: nobody has answered

	// Texts, which cost something. They need not outlive Tell, but for those of a sampled request.
	Method   string // as the protocol has it
	Model    string // as asked for, likewise Version
	Version  string
	Reason   string // why there is no output; "": there is one
	Client   string // host:port
	ID       []byte // the client's own
	Received int    // bytes of the body; negative: not told
	Sent     int    // likewise

	logged bool
}

// Sample decides whether an inference is traced. traceparent is its caller's; empty: there is none.
func (s *Server) Sample(traceparent []byte) tracing.Context {
	if s.cfg.Tracer == nil {
		return tracing.Context{}
	}
	return s.cfg.Tracer.Begin(traceparent)
}

// Traces reports whether Sample may say yes: for whom a traceparent costs something to find.
func (s *Server) Traces() bool { return s.cfg.Tracer != nil }

// Tells reports whether an Account of a request need be made; trace is what Sample has said.
func (s *Server) Tells(trace *tracing.Context) bool {
	return s.cfg.AccessLog != nil || trace.Sampled()
}

// Wants reports whether anybody is to be told of a: then its texts are needed, and Tell must follow.
func (s *Server) Wants(a *Account) bool {
	if s.cfg.AccessLog != nil && !quiet(a.Route) {
		a.logged = s.cfg.AccessLog.Takes(&accesslog.Entry{Refused: a.Refused, Slack: a.Outcome.slack})
	}
	return a.logged || a.Trace.Sampled()
}

// quiet routes are asked by probes and scrapers, every few seconds.
func quiet(route string) bool { return route == "metrics" || route == "live" || route == "ready" }

// Tell tells those who want to know.
func (s *Server) Tell(a *Account) {
	a.Version = cmp.Or(a.Outcome.version, a.Version)
	if a.Trace.Sampled() {
		s.trace(a)
	}
	if a.logged {
		s.line(a)
	}
}

// line writes the line of the access log.
func (s *Server) line(a *Account) {
	o := &a.Outcome
	e := accesslog.Entry{Protocol: a.Protocol, Method: a.Method, Route: a.Route, Model: a.Model, Version: a.Version, Client: a.Client, ID: a.ID,
		Status: a.Status, Reason: a.Reason, Refused: a.Refused, Received: a.Received, Sent: a.Sent, Total: a.Ended.Sub(a.Began).Std(),
		Request: uint64(o.request), BatchSize: o.batchSize, GPU: o.gpu, Preprocess: o.preprocess, Queue: o.queue,
		Fetch: o.fetch, Execute: o.execute, Reply: o.reply, Slack: o.slack}
	if a.Trace.Sampled() {
		e.Trace = hex.EncodeToString(a.Trace.Trace[:])
	}
	s.cfg.AccessLog.Write(&e)
}

// trace tells the tracer.
func (s *Server) trace(a *Account) {
	o := &a.Outcome
	r := tracing.Record{Context: a.Trace, Protocol: a.Protocol, Method: a.Method, Route: a.Route, Model: a.Model, Version: a.Version,
		Status: a.Status, Reason: a.Reason, Refused: a.Refused, Began: a.Began, Ended: a.Ended, Request: o.slowest, Items: o.items,
		BatchSize: o.batchSize, GPU: o.gpu, Epoch: o.epoch, Batch: o.batch, Slack: o.slack, Times: o.times}
	if r.Refused { // after its answer: there is none for the client
		r.BatchSize = 0
	}
	s.cfg.Tracer.End(&r)
}

// Asked writes down an inference that is about to be asked for. version is as asked for, timeout in
// microseconds; 0: the model's SLO.
func (s *Server) Asked(spec *catalog.ModelSpec, version string, timeout int64, items int) {
	if s.cfg.Recorder != nil {
		s.cfg.Recorder.Add(spec.Name, version, time.Duration(timeout)*time.Microsecond, items)
	}
}

// sample decides whether the exchange's inference is traced.
func (s *Server) sample(x *exchange) {
	if s.Traces() {
		x.trace = s.Sample(x.ctx.Request.Header.Peek(traceparent))
	}
}

// tell tells of an exchange, and its client of its trace. What the account views ends with the exchange.
func (s *Server) tell(x *exchange, route int, began, ended mono.Time) {
	response := &x.ctx.Response
	status := response.StatusCode()
	a := Account{Protocol: "http", Route: s.metrics.names[route], Status: status, Refused: status >= 400, Began: began, Ended: ended, Trace: x.trace, Outcome: x.outcome}
	if !s.Wants(&a) {
		return
	}
	if a.Trace.Sampled() {
		x.digits = x.trace.AppendTraceparent(x.digits[:0])
		response.Header.SetBytesV(traceparent, x.digits)
	}
	a.Method, a.Client = string(x.ctx.Method()), x.ctx.RemoteAddr().String()
	if route != 0 && len(x.name) > 0 { // else the exchange has those of a request before
		a.Model, a.Version = x.model, x.version
	}
	if x.understood {
		a.ID = x.request.ID
	}
	if a.Refused {
		a.Reason = string(response.Header.Peek(reasonHeader))
	}
	a.Received, a.Sent = max(-1, x.ctx.Request.Header.ContentLength()), -1
	if !response.IsBodyStream() {
		a.Sent = sent(response)
	}
	s.Tell(&a)
}

// traceparent is W3C's header, of requests and replies.
const traceparent = "traceparent"
