package frontend

import (
	"errors"
	"fmt"
	"time"

	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// sayInfeasible puts it in words, with both numbers, when a request was given less time than its model takes for
// it alone: then it is no use to try again. What else may have cost it its deadline, queues and networks, is not
// said, for none of it is known here.
func (k *call) sayInfeasible(err *Error) {
	if text := infeasible(&k.model.entry.Spec, 1, k.deadline.Sub(k.arrival), err.Reason); text != "" {
		err.Msg = text
	}
}

// infeasible is why n items together could not make a deadline that far away; "": they could.
func infeasible(spec *catalog.ModelSpec, n int, had mono.Dur, reason wire.Reason) string {
	switch reason {
	case wire.ReasonDeadline, wire.ReasonExpired, wire.ReasonLate:
	default:
		return ""
	}
	n = min(n, max(1, spec.MaxBatch))
	takes := spec.Profile.Of(n)
	if takes <= had {
		return ""
	}
	what, advice := "one item takes", "ask with a longer timeout"
	if n > 1 {
		what, advice = fmt.Sprintf("a batch of %d items takes", n), "ask for fewer items at a time, or with a longer timeout"
	}
	if had == spec.SLO {
		return fmt.Sprintf("%s %s, more than its SLO of %s: %s, or raise slo", what, catalog.Span(takes), catalog.Span(had), advice)
	}
	return fmt.Sprintf("%s %s, and it had %s: %s", what, catalog.Span(takes), catalog.Span(had), advice)
}

// Together is the error of a request whose items were asked for one by one: where they were more than a batch of
// them can do in the time that they had, it says so. timeout 0: the model's SLO.
func Together(err error, spec *catalog.ModelSpec, items int, timeout time.Duration) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	had := spec.SLO
	if timeout > 0 {
		had = mono.Dur(timeout)
	}
	if spec.Profile.Alone() > had {
		return err // it says so already
	}
	if text := infeasible(spec, items, had, e.Reason); text != "" {
		with := *e
		with.Msg = text
		return &with
	}
	return err
}
