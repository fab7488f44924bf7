package frontend

import (
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport/wire"
)

// Each reason for which a request has no output has words of its own, and a kind.
func TestErrorOfEachReason(t *testing.T) {
	kinds := map[error][]wire.Reason{
		ErrDropped:          {wire.ReasonDeadline, wire.ReasonShed, wire.ReasonLate, wire.ReasonCold},
		ErrDeadlineExceeded: {wire.ReasonDeadline, wire.ReasonExpired, wire.ReasonLate},
		ErrOverloaded:       {wire.ReasonFull, wire.ReasonMemory, wire.ReasonUnsent},
		ErrUnavailable:      {wire.ReasonUnavailable, wire.ReasonBackendLost, wire.ReasonDraining},
		ErrUnknownModel:     {wire.ReasonUnknownModel},
		ErrFailed:           {wire.ReasonExecution},
		ErrBadInput:         {wire.ReasonInput},
		ErrInfeasible:       {wire.ReasonInfeasible},
		ErrIsolated:         {wire.ReasonIsolated},
		ErrCancelled:        {wire.ReasonCancelled},
	}
	seen := map[string]wire.Reason{}
	for reason := wire.ReasonDeadline; int(reason) < wire.ReasonCount; reason++ {
		e := reasonError("m", reason)
		if other, ok := seen[e.Error()]; ok || e.Msg == "" && reason != wire.ReasonCancelled {
			t.Errorf("%v: %q, as for %v", reason, e, other)
		}
		seen[e.Error()] = reason
		matches := 0
		for kind, reasons := range kinds {
			want := false
			for _, r := range reasons {
				want = want || r == reason
			}
			if got := errors.Is(e, kind); got != want {
				t.Errorf("%v: is it %q? %v, want %v", reason, kind, got, want)
			} else if got {
				matches++
			}
		}
		if matches == 0 {
			t.Errorf("%v: %q is of no kind", reason, e)
		}
	}
}
