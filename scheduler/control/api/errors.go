package api

import (
	"fmt"
	"net/http"
	"time"
)

// Kind is what sort of an error it is.
type Kind string

const (
	KindInvalid      Kind = "invalid"      // 400: Field is wrong
	KindUnauthorized Kind = "unauthorized" // 401
	KindForbidden    Kind = "forbidden"    // 403
	KindNotFound     Kind = "not_found"    // 404
	KindConflict     Kind = "conflict"     // 409: it does not go together with what there is
	KindTooLarge     Kind = "too_large"    // 413
	KindAway         Kind = "away"         // 503: the store or the scheduler does not answer; try again after RetryAfter
	KindInternal     Kind = "internal"     // 500
)

func (k Kind) status() int {
	switch k {
	case KindInvalid:
		return http.StatusBadRequest
	case KindUnauthorized:
		return http.StatusUnauthorized
	case KindForbidden:
		return http.StatusForbidden
	case KindNotFound:
		return http.StatusNotFound
	case KindConflict:
		return http.StatusConflict
	case KindTooLarge:
		return http.StatusRequestEntityTooLarge
	case KindAway:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// Error is why a call was not carried out.
type Error struct {
	Kind       Kind          `json:"kind"`
	Field      string        `json:"field,omitempty"`   // "settings.slo", "shares[1].version"
	Msg        string        `json:"error"`             // whole: it names the field, and what to do
	Unknown    bool          `json:"unknown,omitempty"` // of away: the change may have been made
	RetryAfter time.Duration `json:"-"`                 // of away
}

func (e *Error) Error() string { return e.Msg }

// Is makes errors of a kind match each other: errors.Is(err, &Error{Kind: KindNotFound}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && t.Msg == "" && t.Field == ""
}

// Invalid is of a field with a value that it must not have.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Field: field, Msg: field + ": " + fmt.Sprintf(format, args...)}
}

// NotFound is of what is not there.
func NotFound(format string, args ...any) *Error {
	return &Error{Kind: KindNotFound, Msg: fmt.Sprintf(format, args...)}
}

// Conflict is of what does not go together with what there is.
func Conflict(format string, args ...any) *Error {
	return &Error{Kind: KindConflict, Msg: fmt.Sprintf(format, args...)}
}

// Away is of calls that need what does not answer.
func Away(retryAfter time.Duration, unknown bool, format string, args ...any) *Error {
	return &Error{Kind: KindAway, RetryAfter: retryAfter, Unknown: unknown, Msg: fmt.Sprintf(format, args...)}
}
