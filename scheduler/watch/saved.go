package watch

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/transport/wire"
)

// saved says what would have saved the request, the surest first. Each line holds with all else
// as it was; under overload another request would have paid for it, and the line says so.
func (t *Story) saved(s *State) {
	say := func(format string, args ...any) { t.Saved = append(t.Saved, fmt.Sprintf(format, args...)) }
	switch t.Cause {
	case CauseLateRecord:
		short, took := t.First.Sub(t.Last), t.came().Sub(t.Request.Arrival)
		if took < short { // no way is that short
			say("a deadline later by %v", span(short))
			break
		}
		say("a way to the scheduler shorter by %v (it took %v), or an SLO longer by as much", span(short), span(took))
	case CauseLateInputs, CauseOverrun:
		t.slipSaved(s, say)
	case CauseLongBatch:
		say("%s free %v earlier", s.GPUName(t.Pool, t.Needed.GPU), span(t.Short))
		t.shorter(s, say)
		say("an SLO longer by %v", span(t.Short))
		say("one more GPU: it would have been idle")
	case CauseOverload:
		t.capacity(s, say)
	case CauseLateScheduler:
		say("a scheduler that is on time: symphony_loop_lateness_seconds says how late its loops are")
	case CauseCold:
		t.coldSaved(say)
	case CauseRefused:
		t.admitted(say)
	}
}

// slipSaved is for a batch that started late or ran long.
func (t *Story) slipSaved(s *State, say func(string, ...any)) {
	r := t.Own
	if t.Needed != nil {
		r = t.Needed
	}
	if r == nil {
		return
	}
	r = r.root()
	if t.Cause == CauseOverrun {
		say("batch %s of %s within its profile: it ran %v, planned were %v", Number(r.Batch), r.Name, span(r.End.Sub(r.Start)), span(r.Until.Sub(r.Exec)))
		say("a margin of %v (scheduler.margin), which models learn of batches that overrun", span(r.over()))
		return
	}
	bound := s.bound(t.Pool, r.Model, r.Size)
	say("order and inputs of batch %s of %s within the network's bound, %v: it started %v late", Number(r.Batch), r.Name, span(bound), span(r.late()))
	if r.Fetch > bound {
		say("inputs alone took %v to reach the backend", span(r.Fetch))
	}
}

// shorter says which batch size of the model in the way would have left the GPU in time.
func (t *Story) shorter(s *State, say func(string, ...any)) {
	m := s.Model(t.Needed.Model)
	if m == nil || m.Profile == nil {
		return
	}
	n := m.Profile.Largest(t.Last.Sub(t.Needed.from()), 0)
	if n >= 1 && n < t.Needed.Size {
		say("batches of at most %d of %s: its %d took %v", n, t.Needed.Name, t.Needed.Size, span(t.Needed.to().Sub(t.Needed.from())))
	}
}

// capacity is for more work than the GPUs carry.
func (t *Story) capacity(s *State, say func(string, ...any)) {
	p := s.Pool(t.Pool)
	switch {
	case p != nil && p.Need > float64(p.GPUs):
		say("%d more GPUs: the load needs %.1f, and there are %d", int(math.Ceil(p.Need))-p.GPUs, p.Need, p.GPUs)
	case t.Needed != nil:
		say("one more GPU during this burst")
	}
	if t.Reason == wire.ReasonShed && t.LostTo != nil {
		say("less load: it was given up so that batch %s of %s could have %d requests; a smaller batch would have lost more of those that follow", Number(t.LostTo.Batch), t.LostTo.Name, t.LostTo.Size)
		return
	}
	if t.Short > 0 {
		say("an SLO longer by %v, which another request would have paid for", span(t.Short))
	}
}

// admitted is for a request that never waited.
func (t *Story) admitted(say func(string, ...any)) {
	switch t.Reason {
	case wire.ReasonFull:
		say("a longer queue (scheduler.queue_max, scheduler.requests_max), if its SLO allows to wait that long")
	case wire.ReasonUnavailable:
		say("a GPU that has the model: there was none")
	case wire.ReasonUnknownModel:
		say("the model: it was not served any more when the request came")
	case wire.ReasonDraining:
		say("another scheduler: this one was shutting down")
	}
}
