package ingress

import (
	"cmp"
	"encoding/hex"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
	"github.com/symphony-serving/symphony/frontend/tracing"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// outcome is what is told of a request's answers once they are given back: of a batch's items the
// longest times, and the least slack, which is negative when late.
type outcome struct {
	request    wire.RequestID // of the first item
	version    string
	batchSize  int // 0: there is no answer
	gpu        int
	preprocess time.Duration
	queue      time.Duration
	fetch      time.Duration
	execute    time.Duration
	reply      time.Duration
	total      time.Duration
	slack      time.Duration

	// Of the item that took longest.
	items   int
	slowest wire.RequestID
	epoch   wire.Epoch
	batch   wire.BatchID
	times   frontend.Times
}

func (o *outcome) take(answers []*frontend.Response) {
	a := answers[0]
	*o = outcome{request: a.Request, version: a.Version, batchSize: a.BatchSize, gpu: a.GPU, preprocess: a.Preprocess, queue: a.Queue, fetch: a.Fetch,
		execute: a.Execute, reply: a.Reply, total: a.Total, slack: a.Slack, items: len(answers), slowest: a.Request, epoch: a.Epoch, batch: a.Batch, times: a.Times}
	for _, a := range answers[1:] {
		if a.Total > o.total {
			o.slowest, o.epoch, o.batch, o.times = a.Request, a.Epoch, a.Batch, a.Times
		}
		o.preprocess, o.queue, o.fetch = max(o.preprocess, a.Preprocess), max(o.queue, a.Queue), max(o.fetch, a.Fetch)
		o.execute, o.reply, o.total = max(o.execute, a.Execute), max(o.reply, a.Reply), max(o.total, a.Total)
		o.slack, o.batchSize = min(o.slack, a.Slack), max(o.batchSize, a.BatchSize)
	}
}

// quiet routes are asked by probes and scrapers, every few seconds.
func quiet(route string) bool { return route == "metrics" || route == "live" || route == "ready" }

// tell gives the access log a request and its answer; what it views ends with the exchange.
func (s *Server) tell(x *exchange, route int, took mono.Dur) {
	response := &x.ctx.Response
	status, name := response.StatusCode(), s.metrics.names[route]
	if quiet(name) {
		return
	}
	o := &x.outcome
	e := accesslog.Entry{Protocol: "http", Route: name, Status: status, Refused: status >= 400, Total: took.Std(),
		Request: uint64(o.request), BatchSize: o.batchSize, GPU: o.gpu, Preprocess: o.preprocess, Queue: o.queue,
		Fetch: o.fetch, Execute: o.execute, Reply: o.reply, Slack: o.slack}
	if !s.cfg.AccessLog.Takes(&e) {
		return
	}
	e.Method, e.Client = string(x.ctx.Method()), x.ctx.RemoteAddr().String()
	if route != 0 && len(x.name) > 0 { // else the exchange has those of a request before
		e.Model, e.Version = x.model, cmp.Or(o.version, x.version)
	}
	if x.understood {
		e.ID = x.request.ID
	}
	if x.trace.Sampled() {
		e.Trace = hex.EncodeToString(x.trace.Trace[:])
	}
	e.Reason = string(response.Header.Peek(reasonHeader))
	e.Received, e.Sent = max(-1, x.ctx.Request.Header.ContentLength()), -1
	if !response.IsBodyStream() {
		e.Sent = len(response.Body())
	}
	s.cfg.AccessLog.Write(&e)
}

// sample decides whether the exchange's inference is traced.
func (s *Server) sample(x *exchange) {
	if s.cfg.Tracer != nil {
		x.trace = s.cfg.Tracer.Begin(x.ctx.Request.Header.Peek("traceparent"))
	}
}

// trace tells the tracer of a request that is sampled, and the client of its trace.
func (s *Server) trace(x *exchange, route int, began, ended mono.Time) {
	response, o := &x.ctx.Response, &x.outcome
	x.digits = x.trace.AppendTraceparent(x.digits[:0])
	response.Header.SetBytesV("traceparent", x.digits)
	status := response.StatusCode()
	r := tracing.Record{Context: x.trace, Protocol: "http", Method: "POST", Route: s.metrics.names[route], Model: x.model, Version: cmp.Or(o.version, x.version),
		Status: status, Refused: status >= 400, Began: began, Ended: ended, Request: o.slowest, Items: o.items, BatchSize: o.batchSize, GPU: o.gpu,
		Epoch: o.epoch, Batch: o.batch, Slack: o.slack, Times: o.times}
	if r.Refused {
		r.Reason, r.BatchSize = string(response.Header.Peek(reasonHeader)), 0
	}
	s.cfg.Tracer.End(&r)
}

// record writes down an inference that is about to be asked for. timeout is in microseconds, 0: the model's SLO.
func (s *Server) record(x *exchange, spec *catalog.ModelSpec, timeout int64, items int) {
	if s.cfg.Recorder != nil {
		s.cfg.Recorder.Add(spec.Name, x.version, time.Duration(timeout)*time.Microsecond, items)
	}
}
