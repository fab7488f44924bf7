package watch

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Outcome is what became of a request.
type Outcome string

const (
	Dropped Outcome = "dropped"
	Late    Outcome = "late"
	Served  Outcome = "served"
	Running Outcome = "running"
)

// Cause is why it was dropped or late, in one word.
type Cause string

const (
	// CauseNone: it was served in time.
	CauseNone Cause = "none"
	// CauseOverload: the GPUs were given to batches that were due before it.
	CauseOverload Cause = "overload"
	// CauseLongBatch: a batch that began before it came ran for longer than it could wait.
	CauseLongBatch Cause = "long_batch"
	// CauseLateRecord: when the scheduler heard of it, too little time was left.
	CauseLateRecord Cause = "late_record"
	// CauseLateInputs: a batch started late because its order or its inputs were late.
	CauseLateInputs Cause = "late_inputs"
	// CauseOverrun: a batch ran for longer than its profile says.
	CauseOverrun Cause = "overrun"
	// CauseLateScheduler: a GPU was free, and the scheduler did not use it: it stood still, or
	// kept its order of deadlines.
	CauseLateScheduler Cause = "late_scheduler"
	// CauseRefused: it never waited for a GPU; the reason says all.
	CauseRefused Cause = "refused"
	// CauseCold: no GPU had its model's weights, and no load of them was in time.
	CauseCold Cause = "cold"
	// CauseUnknown: the events that would tell are missing.
	CauseUnknown Cause = "unknown"
)

// Story is what happened to a request. Instants are of the events' clock.
type Story struct {
	Request Request
	Model   wire.ModelID
	Name    string // of the model
	Pool    int32
	Outcome Outcome
	Reason  wire.Reason // Dropped
	Cause   Cause
	Ended   mono.Time // dropped at, or its batch's end

	// Alone is l(1), First and Last are the window for a batch of it alone: an order sent when the
	// record came is there at First, and a start after Last is too late. 0: not known.
	Alone       mono.Dur
	First, Last mono.Time
	Margin      mono.Dur

	Own    *Ran // the batch that it was in
	Needed *Ran // the batch that had the GPU it needed
	LostTo *Ran // the batch that was given a GPU while it waited
	FreeAt mono.Time
	Short  mono.Dur // by how much earlier that GPU had to be free, or its own batch had to end
	Load   *Loading // that it waited for; in paged pools
	Gone   *Evicted // why there had to be one
	Others []Loader // what loaders had to do for other models meanwhile; of a request that got no load in time
	Held   int      // GPUs that had its model's weights, or were loading them, while nothing that is kept tells which
	GPUs   []Had    // who had the GPUs meanwhile
	Saved  []string // what would have saved it
	Gaps   bool     // events of that time are missing

	paged     bool // of a paged pool
	heldKnown bool // Held is what it was then
}

// Ran is a batch: what was planned, and, once it is reported, what was.
type Ran struct {
	Batch         wire.BatchID
	Model         wire.ModelID
	Name          string // of the model
	GPU           wire.GPUID
	Size          int
	Sent, Due     mono.Time
	Exec, Until   mono.Time // planned
	Start, End    mono.Time // real, if Reported
	Reported      bool
	Fetch         mono.Dur
	Earliest      mono.Time // deadline of its requests; 0: not told
	before        mono.Time // when what ran before it on that GPU ended
	beforeRan     *Ran
	beforePlanned mono.Time
}

// Had is what one GPU did while the request waited.
type Had struct {
	GPU    wire.GPUID
	FreeAt mono.Time // the first instant from First on at which it was free
	Ran    []*Ran
}

// from and to are from when on its GPU was kept for it and when it was free again, as far as is
// known: also while its inputs are late nothing else runs there.
func (r *Ran) from() mono.Time {
	if r.Reported {
		return min(r.Exec, r.Start)
	}
	return r.Exec
}

// began is when it ran.
func (r *Ran) began() mono.Time {
	if r.Reported {
		return r.Start
	}
	return r.Exec
}

func (r *Ran) to() mono.Time {
	if r.Reported {
		return r.End
	}
	return r.Until
}

// late is by how much it started later than planned although its GPU was free, over by how much
// longer it ran than planned.
func (r *Ran) late() mono.Dur {
	if !r.Reported {
		return 0
	}
	return max(0, r.Start.Sub(max(r.Exec, r.before)))
}

func (r *Ran) over() mono.Dur {
	if !r.Reported {
		return 0
	}
	return max(0, r.End.Sub(r.Start)-r.Until.Sub(r.Exec))
}

// ErrNotKnown is the cause when no event tells of a request.
var ErrNotKnown = errors.New("nothing is known of this request")

// Tell tells the story of a request by what is kept.
func Tell(h *History, s *State, key Key) (*Story, error) {
	at, inside := h.find(key)
	if at == nil {
		return nil, fmt.Errorf("%w: request %s is in no event that is kept; events are kept for a minute, and only while somebody looks: symphony top, the page, or a question like this in the last half minute (or always, with scheduler.watch: always)",
			ErrNotKnown, key)
	}
	t := &Story{Model: at.Model, Name: s.Name(at.Model), Pool: at.Pool, Cause: CauseUnknown, Gaps: h.Missed() > 0 || sampled(s, at.Pool)}
	if at.Kind == Drop {
		t.Request, t.Outcome, t.Reason, t.Ended, t.Margin = at.Request, Dropped, at.Reason, at.At, at.Margin
	} else {
		t.Request, t.Outcome = at.Requests[inside], Running
	}
	t.Gaps = t.Gaps || t.Request.Arrival < h.From()
	if m := s.Model(at.Model); m != nil && m.Profile != nil {
		t.window(m.Profile, s.bound(at.Pool, at.Model, 1))
	}
	if p := s.Pool(t.Pool); p != nil {
		t.paged = p.Paged()
	}
	g := gather(h, s, t)
	if t.Outcome != Dropped {
		t.whyLate(g, at)
	}
	if t.paged {
		t.tellLoads(g, s)
	}
	if t.Outcome == Dropped {
		t.whyDropped(g, s)
	}
	t.saved(s)
	return t, nil
}

// sampled reports whether a pool's batches are told of in part.
func sampled(s *State, pool int32) bool {
	p := s.Pool(pool)
	return p != nil && p.Every > 1
}

// find is the newest event of a request: a drop, or the batch that it is in, and its place there.
func (h *History) find(key Key) (e *Event, at int) {
	var d decoder
	for i := h.n - 1; i >= 0; i-- {
		events := d.decode(h.at(i), 1<<Batch|1<<Drop)
		for k := len(events) - 1; k >= 0; k-- {
			e := &events[k]
			if e.Kind == Drop && e.Request.Key == key {
				return e, 0
			}
			if at := slices.IndexFunc(e.Requests, func(r Request) bool { return r.Key == key }); at >= 0 {
				return e, at
			}
		}
	}
	return nil, 0
}

// window is when it could have started alone.
func (t *Story) window(p *profile.Profile, bound mono.Dur) {
	t.Alone, t.First = p.Latency(1), t.came().Add(bound)
	t.Last = t.Request.Deadline.Add(-t.Margin - t.Alone)
}

// waited reports whether the request was in a queue, where it could be given a GPU.
func (t *Story) waited() bool {
	return t.Reason == wire.ReasonDeadline || t.Reason == wire.ReasonShed || t.Reason == wire.ReasonBackendLost || t.Reason == wire.ReasonNone
}

// whyDropped finds who had the GPU that it needed.
func (t *Story) whyDropped(g *gathered, s *State) {
	switch {
	case t.Reason == wire.ReasonCold:
		t.Cause = CauseCold
		return
	case !t.waited():
		t.Cause = CauseRefused
		return
	case t.paged && len(g.gpus) == 0:
		t.Cause = t.judgeCold()
		return
	case t.Alone == 0 || len(g.gpus) == 0:
		return
	}
	t.GPUs = g.had(t)
	best := -1
	for i := range t.GPUs {
		if best < 0 || t.GPUs[i].FreeAt < t.GPUs[best].FreeAt {
			best = i
		}
	}
	if best >= 0 {
		t.FreeAt = t.GPUs[best].FreeAt
		t.Needed = holder(t.GPUs[best].Ran, max(t.Last, t.First), t.FreeAt)
		t.Short = max(0, t.FreeAt.Sub(t.Last))
	}
	t.LostTo = g.lostTo(t)
	t.Cause = t.judge()
}

// judge names the cause, from what is sure to what is left.
func (t *Story) judge() Cause {
	n := t.Needed
	switch {
	case t.First > t.Last:
		return CauseLateRecord
	case t.Reason == wire.ReasonShed:
		return CauseOverload
	case n == nil || t.FreeAt <= t.Last && t.LostTo == nil:
		if t.Gaps {
			return CauseUnknown
		}
		return CauseLateScheduler
	case n.Reported && n.root().slips() && n.planned() <= t.Last:
		if r := n.root(); r.late() >= r.over() {
			return CauseLateInputs
		}
		return CauseOverrun
	case n.Sent < t.came() && n.Model != t.Model:
		return CauseLongBatch
	}
	return CauseOverload
}

func (t *Story) came() mono.Time {
	if t.Request.Came == 0 {
		return t.Request.Arrival
	}
	return t.Request.Came
}

// slips reports whether the batch ended later than planned for more than the clocks' noise.
func (r *Ran) slips() bool { return r.late()+r.over() > slip }

const slip = 200 * mono.Microsecond

// root is the batch whose lateness this one has: its own, or of those before it on its GPU.
func (r *Ran) root() *Ran {
	for b := r; b != nil; b = b.beforeRan {
		if b.slips() {
			return b
		}
		if b.beforeRan == nil || b.from() > b.beforeRan.to() {
			break // the GPU was idle before it
		}
	}
	return r
}

// planned is when its GPU had been free by plan.
func (r *Ran) planned() mono.Time {
	return min(r.Until, max(r.Exec, r.beforePlanned).Add(r.Until.Sub(r.Exec)))
}

// whyLate tells of a request that ran.
func (t *Story) whyLate(g *gathered, at *Event) {
	t.Own = g.find(at.Batch)
	if t.Own == nil || !t.Own.Reported {
		return
	}
	t.Ended = t.Own.End
	if t.Ended <= t.Request.Deadline {
		t.Outcome, t.Cause = Served, CauseNone
		return
	}
	t.Outcome, t.Short = Late, t.Ended.Sub(t.Request.Deadline)
	t.FreeAt = t.Own.before
	root := t.Own.root()
	if root != t.Own {
		t.Needed = root
	}
	switch {
	case !root.slips():
		t.Cause = CauseUnknown
	case root.late() >= root.over():
		t.Cause = CauseLateInputs
	default:
		t.Cause = CauseOverrun
	}
}
