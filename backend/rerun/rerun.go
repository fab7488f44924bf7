package rerun

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Part is a contiguous run of a batch's requests: from From, below To.
type Part struct{ From, To int }

// Size is how many requests it has.
func (p Part) Size() int { return p.To - p.From }

// Verdict is what is to be done with a part.
type Verdict uint8

const (
	// End: there is no part left.
	End Verdict = iota
	// Run it.
	Run
	// Isolate it: it is of suspects, and there is no time for them.
	Isolate
	// GiveUp: it was in a run that failed, and there is no time to run it apart.
	GiveUp
)

// span is a part that is to run.
type span struct {
	Part
	again  bool // a run that it was in has failed
	paid   bool // of suspects, beside others: from the Share
	strong bool // of strong suspects alone: it may be refused
	second bool // the half beside it is next above it on the stack, or is what runs
}

// Runs are those of one batch. A zero Runs is one without parts.
type Runs struct {
	waiting []span // the last one is next
	now     span
	share   *Share
	record  *Record
	limit   mono.Time
	strong  bool // all are strong suspects
}

// Counts are a batch's requests by suspicion, in the order in which they lie in it.
type Counts [wire.SuspicionStrong + 1]int

// Begin begins a batch. No run begins after limit, but for the first. Where Counts has several grades of suspicion it is
// parted: the least suspect ones run first.
func (r *Runs) Begin(now mono.Time, c Counts, limit mono.Time, share *Share, record *Record) {
	*r = Runs{waiting: r.waiting[:0], share: share, record: record, limit: limit}
	none, some, strong := c[wire.SuspicionNone], c[wire.SuspicionSome], c[wire.SuspicionStrong]
	n := none + some + strong
	r.strong = n == strong
	first := none
	switch {
	case none == 0 && (some == 0 || strong == 0): // all have the same grade
		first = n
	case none == 0:
		first = some
	case !share.Affords(now):
		first = none + some
	}
	for at := n; at > none+some && at > first; at-- { // the first of them is the next one
		r.push(span{Part: Part{at - 1, at}, paid: true, strong: true})
	}
	if at := none + some; first < at {
		r.push(span{Part: Part{first, at}, paid: true})
	}
	r.push(span{Part: Part{0, first}})
}

func (r *Runs) push(s span) {
	if s.Size() > 0 {
		r.waiting = append(r.waiting, s)
	}
}

// Next is the part that is to run next, or that is not to.
func (r *Runs) Next(now mono.Time) (Part, Verdict) {
	n := len(r.waiting)
	if n == 0 {
		return Part{}, End
	}
	r.now, r.waiting = r.waiting[n-1], r.waiting[:n-1]
	s, late := &r.now, now > r.limit
	switch {
	case s.paid && (late && !s.again || s.strong && (late || !r.share.Affords(now))):
		return s.Part, Isolate
	case s.again && (late || r.record.hopeless(now)):
		return s.Part, GiveUp
	}
	return s.Part, Run
}

// Ended takes how the run of the last part went, and how long it took. alone: it failed, and was of one request.
func (r *Runs) Ended(now mono.Time, ok bool, took mono.Dur) (alone bool) {
	s := r.now
	if s.paid {
		r.share.spend(took)
	}
	if ok {
		r.record.served()
		r.halveSibling()
		return false
	}
	if s.Size() == 1 {
		r.record.failed(now)
		return true
	}
	r.halve(s)
	return false
}

// halve replaces a part by its halves.
func (r *Runs) halve(s span) {
	middle := (s.From + s.To) / 2
	s.again, s.paid, s.strong = true, s.paid || r.strong, s.strong || r.strong
	first, second := s, s
	first.To, first.second = middle, false
	second.From, second.second = middle, true
	r.push(second)
	r.push(first)
}

// halveSibling halves the half beside the one that just ran well: the request at fault is most likely in it.
func (r *Runs) halveSibling() {
	n := len(r.waiting)
	if n == 0 || !r.waiting[n-1].second || r.now.second || r.waiting[n-1].From != r.now.To || r.waiting[n-1].Size() < 2 {
		return
	}
	s := r.waiting[n-1]
	r.waiting = r.waiting[:n-1]
	r.halve(s)
}

// Share is what the runs of suspects may take of a device's time.
type Share struct {
	left mono.Dur
	at   mono.Time
	used bool
}

const (
	// shareParts: one part in so many of a device's time is for suspects, beside others: 4 %.
	shareParts = 25
	// shareMost is what is saved of it at most. A run that takes longer is owed.
	shareMost = 200 * mono.Millisecond
	shareOwed = 4 * mono.Second
)

// Affords reports whether a run may begin.
func (s *Share) Affords(now mono.Time) bool {
	if !s.used {
		s.used, s.left, s.at = true, shareMost, now
	}
	s.left = min(shareMost, s.left+max(0, now.Sub(s.at))/shareParts)
	s.at = max(s.at, now)
	return s.left > 0
}

// spend takes a run's time. Reruns of weak suspects do not ask first, as requests above suspicion may be among them:
// what is owed for them is bounded.
func (s *Share) spend(d mono.Dur) { s.left = max(-shareOwed, s.left-max(0, d)) }

// Record is how a model did lately on a device. A zero Record knows nothing.
type Record struct {
	alone int       // runs of one request that failed, without one that went well since
	again mono.Time // when reruns are tried again
}

const (
	// hopelessFrom is after how many failures of one request alone, one after the other, the model is taken to do
	// nothing but fail.
	hopelessFrom = 12
	// hopelessSpan is between two tries of such a model.
	hopelessSpan = mono.Second
)

func (r *Record) served() { r.alone = 0 }

func (r *Record) failed(now mono.Time) {
	if r.alone++; r.alone >= hopelessFrom {
		r.alone, r.again = hopelessFrom, now.Add(hopelessSpan)
	}
}

// Served notes a batch that went well.
func (r *Record) Served() { r.served() }

// hopeless reports whether reruns are not worth their time. A try runs until the next failure.
func (r *Record) hopeless(now mono.Time) bool { return r.alone >= hopelessFrom && now < r.again }
