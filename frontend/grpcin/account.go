package grpcin

import (
	"context"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/symphony-serving/symphony/frontend/ingress"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// traceparent is W3C's, in the metadata of calls and answers.
const traceparent = "traceparent"

// sample decides whether an inference is traced. Of a stream's inferences each is sampled for itself,
// with the stream's caller as its parent.
func (s *Server) sample(ctx context.Context, q *request) {
	if !s.cfg.Web.Traces() {
		return
	}
	var caller []byte
	if v := metadata.ValueFromIncomingContext(ctx, traceparent); len(v) > 0 {
		caller = []byte(v[0])
	}
	q.trace = s.cfg.Web.Sample(caller)
}

// routeOf is HTTP's word for what a call asks for. Calls of the health service are probes.
func routeOf(method string) string {
	switch method {
	case methodInfer, methodStream:
		return "infer"
	case "ServerLive":
		return "live"
	case "ServerReady", "Check", "List":
		return "ready"
	case "ModelReady":
		return "model_ready"
	case "ServerMetadata":
		return "server_metadata"
	case "ModelMetadata":
		return "model_metadata"
	case "ModelConfig":
		return "model_config"
	case "ModelStatistics":
		return "stats"
	case "RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload":
		return "repository"
	case "TraceSetting", "LogSettings":
		return "settings"
	}
	if strings.Contains(method, "SharedMemory") {
		return "shared_memory"
	}
	return "none"
}

// tell tells of an inference that was answered, and its client of its trace: in the metadata of the
// answer, but for those of a stream, whose metadata went with its first one.
func (s *Server) tell(ctx context.Context, q *request, method string, r *reply, err error, began, ended mono.Time) {
	web := s.cfg.Web
	if !web.Tells(&q.trace) {
		return
	}
	a := account(method, err, began, ended)
	a.Trace, a.Outcome = q.trace, q.outcome
	if !web.Wants(&a) {
		return
	}
	if a.Trace.Sampled() && method == methodInfer {
		_ = grpc.SetHeader(ctx, metadata.Pairs(traceparent, string(a.Trace.AppendTraceparent(nil)))) // fails where nobody waits for the answer
	}
	a.Model, a.Version, a.ID = short(q.model), short(q.version), q.id
	if q.bytes > 0 { // else it did not come
		a.Received = q.bytes
	}
	if r != nil {
		a.Sent = len(r.bytes)
	}
	s.finish(ctx, &a, err)
}

// tellCall tells of a call that is no inference; q is its message, nil: it has none.
func (s *Server) tellCall(ctx context.Context, q any, method string, err error, began, ended mono.Time) {
	web := s.cfg.Web
	a := account(method, err, began, ended)
	if !web.Tells(&a.Trace) || !web.Wants(&a) {
		return
	}
	switch q := q.(type) {
	case interface{ GetModelName() string }:
		a.Model = short(q.GetModelName())
	case interface {
		GetName() string
		GetVersion() string
	}:
		a.Model, a.Version = short(q.GetName()), short(q.GetVersion())
	}
	s.finish(ctx, &a, err)
}

// account is what is known of every call.
func account(method string, err error, began, ended mono.Time) ingress.Account {
	return ingress.Account{Protocol: "grpc", Method: method, Route: routeOf(method), Status: int(status.Code(err)), Refused: err != nil,
		Began: began, Ended: ended, Received: -1, Sent: -1}
}

// finish adds what costs something, and tells.
func (s *Server) finish(ctx context.Context, a *ingress.Account, err error) {
	a.Reason = reasonOf(err)
	if p, ok := peer.FromContext(ctx); ok {
		a.Client = p.Addr.String()
	}
	s.cfg.Web.Tell(a)
}

// textMax is how much is told of a name. A message may have one of many megabytes, which must not wait
// for a collector.
const textMax = 256

func short[T string | []byte](name T) string { return string(name[:min(len(name), textMax)]) }

// reasonOf says in one word, that of HTTP, why there is no answer.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return strings.ToLower(info.GetReason())
		}
	}
	switch st.Code() { // by grpc-go, or by us for what is no inference
	case codes.ResourceExhausted:
		return "too_large"
	case codes.DeadlineExceeded:
		return "slow"
	case codes.Canceled:
		return wire.ReasonCancelled.String()
	case codes.Unimplemented:
		return "not_found"
	}
	return strings.ToLower(st.Code().String())
}
