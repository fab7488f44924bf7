package frontend

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Kinds of errors. Match with errors.Is; errors.As with *Error tells more.
var (
	// ErrDropped: the scheduler gave the request up before its execution.
	ErrDropped = errors.New("dropped by the scheduler")
	// ErrDeadlineExceeded: it could not be, or was not, answered in time.
	ErrDeadlineExceeded = errors.New("deadline exceeded")
	// ErrOverloaded: a bounded queue, arena or table is full; try later.
	ErrOverloaded = errors.New("overloaded")
	// ErrUnknownModel: no such model or version in the catalogue.
	ErrUnknownModel = errors.New("unknown model")
	// ErrBadInput: the request does not fit the model.
	ErrBadInput = errors.New("bad input")
	// ErrInfeasible: no variant of the model meets what is asked of latency, accuracy and cost.
	ErrInfeasible = errors.New("infeasible")
	// ErrUnavailable: no scheduler or no backend serves this now.
	ErrUnavailable = errors.New("unavailable")
	// ErrFailed: the model's execution failed.
	ErrFailed = errors.New("execution failed")
	// ErrIsolated: the model failed on requests like it, and there is no time to run it apart from the others.
	ErrIsolated = errors.New("isolated")
	// ErrCancelled: the caller's context ended first.
	ErrCancelled = errors.New("cancelled")
)

// Error is why a request has no output.
type Error struct {
	Kind   error // one of the kinds above
	Reason wire.Reason
	Model  string
	Msg    string

	// Loading: the model is there, and is being loaded.
	Loading bool

	// Frontend and Request are what the scheduler calls the request; Request 0: it did not reach one.
	Frontend wire.FrontendID
	Request  wire.RequestID
}

// ID is what symphony explain takes, to tell why the scheduler dropped the request; "" where it
// did not reach one.
func (e *Error) ID() string { return requestID(e.Frontend, e.Request) }

func requestID(frontend wire.FrontendID, id wire.RequestID) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(frontend), 10) + "-" + strconv.FormatUint(uint64(id), 16)
}

func (e *Error) Error() string {
	s := e.Kind.Error()
	if e.Model != "" {
		s = fmt.Sprintf("model %s: %s", e.Model, s)
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	return s
}

// Is makes the kinds match, and the standard library's context errors.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrLoading:
		return e.Loading
	case ErrDeadlineExceeded:
		return e.Kind == target || e.Reason == wire.ReasonDeadline || e.Reason == wire.ReasonExpired || e.Reason == wire.ReasonLate
	case context.DeadlineExceeded:
		return e.Kind == ErrDeadlineExceeded
	case context.Canceled:
		return e.Kind == ErrCancelled
	}
	return e.Kind == target
}

// reasonError says in words what the reason means.
func reasonError(model string, r wire.Reason) *Error {
	e := &Error{Kind: ErrDropped, Reason: r, Model: model}
	switch r {
	case wire.ReasonDeadline:
		e.Msg = "it could no longer make its deadline"
	case wire.ReasonShed:
		e.Msg = "shed under overload so that the others keep their batch"
	case wire.ReasonFull:
		e.Kind, e.Msg = ErrOverloaded, "the scheduler's queue is full"
	case wire.ReasonUnavailable:
		e.Kind, e.Msg = ErrUnavailable, "no backend serves it now, or the scheduler is away"
	case wire.ReasonBackendLost:
		e.Kind, e.Msg = ErrUnavailable, "its backend died and too little time was left to try another"
	case wire.ReasonDraining:
		e.Kind, e.Msg = ErrUnavailable, "shutting down"
	case wire.ReasonUnknownModel:
		e.Kind, e.Msg = ErrUnknownModel, "the scheduler does not know it"
	case wire.ReasonExecution:
		e.Kind, e.Msg = ErrFailed, "see the backend's log"
	case wire.ReasonIsolated:
		e.Kind = ErrIsolated
		e.Msg = "the model has failed on requests of this client, or with this input, when they ran alone. Such requests run apart, for a few per cent of the time: correct them, or try again later"
	case wire.ReasonInput:
		e.Kind, e.Msg = ErrBadInput, "the backend could not read the input"
	case wire.ReasonExpired:
		e.Kind, e.Msg = ErrDeadlineExceeded, "no answer came in time"
	case wire.ReasonCancelled:
		e.Kind = ErrCancelled
	case wire.ReasonLate:
		e.Msg = "its batch reached the backend too late to make its deadline"
	case wire.ReasonCold:
		e.Msg = "no GPU has the model's weights, and none could load them in time"
	case wire.ReasonMemory:
		e.Kind, e.Msg = ErrOverloaded, "the backend has no memory for its weights or inputs"
	case wire.ReasonUnsent:
		e.Kind, e.Msg = ErrOverloaded, "too many bytes of outputs wait at the backend to be sent (backend.outputs_max)"
	case wire.ReasonInfeasible:
		e.Kind, e.Msg = ErrInfeasible, "no variant meets what is asked of latency, accuracy and cost"
	}
	return e
}

func badInput(model, format string, args ...any) *Error {
	return &Error{Kind: ErrBadInput, Reason: wire.ReasonInput, Model: model, Msg: fmt.Sprintf(format, args...)}
}
