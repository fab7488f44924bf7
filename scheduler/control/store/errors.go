package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Sentinels, for errors.Is.
var (
	// ErrNotFound: there is no such document.
	ErrNotFound = errors.New("not found")
	// ErrNotLeading: the Guard's Lead has ended; another one leads, or will.
	ErrNotLeading = errors.New("this process does not lead any more")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the control plane's store is closed")
)

// ConflictError is the answer to a write that was made from a document that has changed
// since, or was there already.
type ConflictError struct {
	Kind, ID string
	Had      int64 // the revision that the write was made from; 0: none
	Has      int64 // the revision that holds; 0: none
}

func (e *ConflictError) Error() string {
	switch {
	case e.Had == 0:
		return fmt.Sprintf("%s %s exists already: update it instead", e.Kind, e.ID)
	case e.Has == 0:
		return fmt.Sprintf("%s %s was removed meanwhile", e.Kind, e.ID)
	}
	return fmt.Sprintf("%s %s was changed meanwhile (revision %d, not %d): read it again and repeat the change", e.Kind, e.ID, e.Has, e.Had)
}

// FullError is the answer to a document beyond its kind's bound.
type FullError struct {
	Kind string
	Max  int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("there are %d %s already, which is the limit: remove some", e.Max, e.Kind)
}

// AwayError says that etcd does not answer. What is served goes on.
type AwayError struct {
	Where   string
	Doing   string
	Since   time.Time // zero: it may be back with the next call
	Unknown bool      // a write that may have happened
	Hint    string
	Cause   error
}

func (e *AwayError) Error() string {
	since := ""
	if !e.Since.IsZero() {
		since = fmt.Sprintf(" for %v", time.Since(e.Since).Round(time.Second))
	}
	unknown := ""
	if e.Unknown {
		unknown = ", whether it happened is not known"
	}
	return fmt.Sprintf("%s: %s does not answer%s%s (%v): what is served goes on; %s, then repeat it", e.Doing, e.Where, since, unknown, e.Cause, e.Hint)
}

func (e *AwayError) Unwrap() error { return e.Cause }

// SchemaError says that this program and the state do not fit together.
type SchemaError struct{ Reason string }

func (e *SchemaError) Error() string { return e.Reason }

// hint is what to do when etcd is away.
func (c *Config) hint() string {
	if c.embedded() {
		return "look for the reason in the log and at the disk's free space, or restart this process"
	}
	return "start etcd, or correct control.endpoints"
}

// note is what a call carries in its context: what the client itself forgets.
type note struct {
	caller context.Context
	detail string // why there is no connection
}

type noteKey struct{}

// limit starts a call, which ends within Config.Timeout.
func (s *Store) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	return context.WithValue(call, noteKey{}, &note{caller: ctx}), cancel
}

// remember is below the client, which makes "context deadline exceeded" of all that takes too
// long: it keeps what gRPC says of the connection meanwhile.
func remember(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, cc, opts...)
	if n, ok := ctx.Value(noteKey{}).(*note); ok && err != nil {
		n.detail = ""
		if msg := status.Convert(err).Message(); strings.HasPrefix(msg, noConnection) {
			n.detail = strings.TrimPrefix(msg, noConnection)
		}
	}
	return err
}

// noConnection begins gRPC's error where a request was never sent.
const noConnection = "latest balancer error: "

// wrong turns what the client says into what a person can act on. call is of limit; wrote:
// it would have changed something.
func (s *Store) wrong(call context.Context, doing string, wrote bool, err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, ErrClosed)
	}
	n, _ := call.Value(noteKey{}).(*note)
	if n == nil {
		n = &note{caller: call}
	}
	if away(err) {
		cause := plainCause(err)
		if n.detail != "" {
			cause = errors.New(n.detail)
		}
		if n.caller.Err() != nil { // the caller's own limit
			return fmt.Errorf("%s: %s had not answered yet (%w): %w", doing, s.cfg.where(), cause, context.Cause(n.caller))
		}
		s.health.doubt()
		since := time.Time{}
		if st, _ := s.State(); st.Away {
			since = st.Since
		}
		return &AwayError{Where: s.cfg.where(), Doing: doing, Since: since, Unknown: wrote && n.detail == "", Hint: s.cfg.hint(), Cause: cause}
	}
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		what := "compact and defragment it, and clear its alarm (etcdctl alarm disarm)"
		if s.cfg.embedded() {
			what = "restart this process, which gives back what is not used any more"
		}
		return fmt.Errorf("%s: %s has reached its space quota: %s: %w", doing, s.cfg.where(), what, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%s: user %q may not do this at %s: grant it a role for keys below %s (etcdctl role grant-permission ROLE --prefix=true readwrite %s): %w",
			doing, s.cfg.User, s.cfg.where(), s.cfg.Prefix, s.cfg.Prefix, err)
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		return fmt.Errorf("%s: %s refuses user %q: correct control.user and its password: %w", doing, s.cfg.where(), s.cfg.User, err)
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%s: more than %s takes in one request: raise its --max-request-bytes to 1.5 MiB or more: %w", doing, s.cfg.where(), err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// away is whether an error of the client means that etcd did not answer.
func away(err error) bool {
	switch code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, rpctypes.ErrNoLeader)
}

// code is the gRPC code behind any of the forms in which the client returns errors.
func code(err error) codes.Code {
	var typed rpctypes.EtcdError
	if errors.As(err, &typed) {
		return typed.Code()
	}
	if s, ok := status.FromError(err); ok {
		return s.Code()
	}
	return codes.Unknown
}

// plainCause leaves out the wrapping "rpc error: code = ... desc = ".
func plainCause(err error) error {
	if s, ok := status.FromError(err); ok && s.Message() != "" {
		return errors.New(s.Message())
	}
	return err
}
