package ingress

import (
	"cmp"
	"time"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/accesslog"
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
}

func (o *outcome) take(answers []*frontend.Response) {
	a := answers[0]
	*o = outcome{a.Request, a.Version, a.BatchSize, a.GPU, a.Preprocess, a.Queue, a.Fetch, a.Execute, a.Reply, a.Total, a.Slack}
	for _, a := range answers[1:] {
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
	e.Reason = string(response.Header.Peek(reasonHeader))
	e.Received, e.Sent = max(-1, x.ctx.Request.Header.ContentLength()), -1
	if !response.IsBodyStream() {
		e.Sent = len(response.Body())
	}
	s.cfg.AccessLog.Write(&e)
}
