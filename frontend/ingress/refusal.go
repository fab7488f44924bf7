package ingress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/symphony-serving/symphony/frontend"
	"github.com/symphony-serving/symphony/frontend/ingress/oip"
	"github.com/symphony-serving/symphony/frontend/regions"
	"github.com/symphony-serving/symphony/transport/wire"
)

// reasonHeader says in one word why a request was refused: a wire.Reason, or
// one of the ingress's own words.
const reasonHeader = "X-Symphony-Reason"

// requestHeader has what symphony explain takes, of a request that the scheduler knew.
const requestHeader = "X-Symphony-Request"

// clientGone is what other servers count where a client has closed before it had its answer.
const clientGone = 499

// refusal is an answer without a result.
type refusal struct {
	status int
	reason string
	id     string // of the request, for symphony explain; "": the scheduler did not know it
	msg    string
	after  time.Duration // when it may work (later.go); 0: trying again is not the way
	close  bool          // the request was not read whole: the connection cannot go on
}

func (r *refusal) Error() string { return r.msg }

// full is the answer of everything bounded here, whatever the model.
func (s *Server) full(what string) *refusal { return s.fullOf("", "", wire.ReasonFull, what) }

// fullOf is the answer where more comes than is served, in all or of a model.
func (s *Server) fullOf(model, version string, reason wire.Reason, what string) *refusal {
	return &refusal{status: s.cfg.FullStatus, reason: reason.String(), msg: "Exceeds maximum queue size: " + what, after: spread(s.after(model, version))}
}

func badRequest(format string, args ...any) *refusal {
	return &refusal{status: 400, reason: "bad_request", msg: fmt.Sprintf(format, args...)}
}

// refusalOf turns any error into an answer. Texts are those that clients of
// Triton know, followed by ours.
func (s *Server) refusalOf(model, version string, err error) *refusal {
	var r *refusal
	var bad *oip.Error
	var e *frontend.Error
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &bad):
		return badRequest("%s", bad.Error())
	case errors.Is(err, regions.ErrUnknown):
		return &refusal{status: 404, reason: "unknown_region", msg: plain(err, regions.ErrUnknown)}
	case errors.Is(err, regions.ErrExists):
		return &refusal{status: 409, reason: "exists", msg: plain(err, regions.ErrExists)}
	case errors.Is(err, regions.ErrFull):
		return s.full(err.Error())
	case errors.Is(err, regions.ErrInput):
		return badRequest("%s", plain(err, regions.ErrInput))
	case errors.Is(err, regions.ErrGone):
		return badRequest("%s", plain(err, regions.ErrGone))
	case !errors.As(err, &e):
		return &refusal{status: 500, reason: "internal", msg: err.Error()}
	}
	reason := e.Reason.String()
	if e.Reason == wire.ReasonNone {
		reason = "internal"
	}
	switch {
	case e.Kind == frontend.ErrBadInput:
		return &refusal{status: 400, reason: wire.ReasonInput.String(), msg: e.Error()}
	case e.Kind == frontend.ErrUnknownModel:
		return unknownModel(model, version)
	case e.Kind == frontend.ErrOverloaded: // of the frontend's own bounds, which give no id, or of the scheduler's
		full := wire.ReasonFull
		if e.Reason == wire.ReasonMemory || e.Reason == wire.ReasonUnsent {
			full = e.Reason
		}
		r = s.fullOf(model, version, full, e.Error())
		r.id = e.ID()
		return r
	case e.Reason == wire.ReasonShed:
		r = s.fullOf(model, version, e.Reason, e.Error())
		r.id = e.ID()
		return r
	case e.Kind == frontend.ErrIsolated: // of this client, or of this input: others are served
		return &refusal{status: s.cfg.FullStatus, reason: reason, id: e.ID(), msg: e.Error(), after: spread(pause)}
	case e.Reason == wire.ReasonCold: // its weights may be there when it comes again
		return &refusal{status: 503, reason: reason, id: e.ID(), msg: e.Error(), after: pause}
	case e.Kind == frontend.ErrInfeasible:
		return &refusal{status: 400, reason: reason, id: e.ID(), msg: e.Error()}
	case e.Kind == frontend.ErrDropped, errors.Is(e, frontend.ErrDeadlineExceeded):
		return &refusal{status: 503, reason: reason, id: e.ID(), msg: "Request timeout expired: " + e.Error()}
	case e.Loading:
		return &refusal{status: 503, reason: "loading", id: e.ID(), msg: e.Error(), after: pause}
	case e.Kind == frontend.ErrUnavailable:
		return &refusal{status: 503, reason: reason, id: e.ID(), msg: e.Error(), after: pause}
	case e.Kind == frontend.ErrCancelled: // nobody will read it, but who counts
		return &refusal{status: clientGone, reason: reason, msg: e.Error()}
	}
	return &refusal{status: 500, reason: reason, id: e.ID(), msg: e.Error()}
}

// plain is an error's text without its kind's, as clients of Triton know it.
func plain(err, kind error) string { return strings.TrimPrefix(err.Error(), kind.Error()+": ") }

func unknownModel(model, version string) *refusal {
	msg := fmt.Sprintf("Request for unknown model: '%s' is not found", model)
	if version != "" {
		msg = fmt.Sprintf("Request for unknown model: '%s' version %s is not found", model, version)
	}
	return &refusal{status: 404, reason: wire.ReasonUnknownModel.String(), msg: msg}
}

// write answers with the refusal.
func (r *refusal) write(ctx *fasthttp.RequestCtx) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(r.status)
	ctx.SetContentType("application/json")
	ctx.Response.Header.Set(reasonHeader, r.reason)
	if r.id != "" {
		ctx.Response.Header.Set(requestHeader, r.id)
	}
	if r.after > 0 {
		writeAfter(ctx, r.after)
	}
	if r.close {
		abandon(ctx)
	}
	ctx.Response.AppendBodyString(`{"error":`)
	ctx.Response.AppendBody(oip.AppendString(nil, []byte(r.msg)))
	ctx.Response.AppendBodyString("}")
}

// abandon closes the connection after the answer, whose request has not been
// read whole.
func abandon(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c, ok := ctx.Conn().(*conn); ok {
		c.linger.Store(true)
	}
}

// unreadable answers a request whose line or headers fasthttp could not read.
func (s *Server) unreadable(ctx *fasthttp.RequestCtx, err error) {
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	r := badRequest("malformed HTTP request: %v", err)
	switch {
	case errors.As(err, &small) || errors.Is(err, fasthttp.ErrSmallReadBuffer):
		r = &refusal{status: 431, reason: "too_large", msg: fmt.Sprintf("the request's line and headers are above %d bytes", s.cfg.HeaderMax)}
	case errors.As(err, &timeout) && timeout.Timeout():
		r = s.tooSlow()
	case errors.Is(err, io.ErrUnexpectedEOF):
		r = badRequest("the request ends early")
	}
	r.close = true
	r.write(ctx)
	s.metrics.count(0, r.status)
}

func (s *Server) tooSlow() *refusal {
	if s.givenUp.Load() {
		return shuttingDown()
	}
	c := &s.cfg
	return &refusal{status: 408, reason: "slow", close: true, msg: fmt.Sprintf(
		"the request did not arrive in time: headers must within %v; a body within %v, and at %d bytes/s or more (looked at every %v)",
		c.HeaderTimeout, c.BodyTimeout, max(c.BodyRate, 0), s.paceWindow())}
}
