package engine

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// wants is what a model tells the rank of its requests, beside its mail, where pools are paged: loads are
// by how much waits. It counts, for a mail may replace others unseen; take makes it what is new.
type wants struct {
	came, left uint32    // requests that wait from then on, and that were dropped
	size       uint32    // of the batch that the last answer is for
	latest     mono.Time // by when who came last must start alone
	alone      mono.Dur  // how long that takes
}

// wanting is what a model loop of a paged engine keeps for wants. Owned by the loop's run.
type wanting struct {
	told    wants
	known   int       // requests that the rank takes to wait, when it has all mail
	dropped int       // of those, since the last mail
	fresh   bool      // requests came since the last mail
	latest  mono.Time // of those the last one's
	touched bool      // it is among modelLoop.touched
}

// cameLoop notes a request that was handed to the core of a paged engine.
func (l *modelLoop) cameLoop(s *Submission) {
	m := l.model(s.Model)
	if m == nil || s.Cancel || s.Request.Class == wire.ClassBestEffort {
		return
	}
	w := m.wanting
	margin, _ := l.shard.Margin(s.Model)
	w.fresh, w.latest = true, s.Request.Deadline.Add(-margin-w.told.alone)
	l.touchLoop(s.Model, w)
}

// touchLoop has the rank be told of the model's requests at the end of the input.
func (l *modelLoop) touchLoop(id wire.ModelID, w *wanting) {
	if !w.touched {
		w.touched = true
		l.touched = append(l.touched, id)
	}
}

// waited reports whether a request that is dropped for the reason waited before, as far as the rank knows.
func waited(r wire.Reason) bool {
	return r != wire.ReasonFull && r != wire.ReasonUnknownModel && r != wire.ReasonBackendLost && r != wire.ReasonLate
}

// mailWantsLoop is mailLoop of a paged engine: with the mail goes how many requests wait, and models of which
// only that has changed have mail, too.
func (l *modelLoop) mailWantsLoop() {
	for i := range l.out.Drops {
		d := &l.out.Drops[i]
		if m := l.model(d.Request.Model); m != nil && d.Request.Class == wire.ClassLatency && waited(d.Reason) {
			m.wanting.dropped++
			l.touchLoop(d.Request.Model, m.wanting)
		}
	}
	if l.in.op == opLost { // requests of any model are queued again
		for id, m := range l.served {
			if m != nil {
				l.touchLoop(wire.ModelID(id), m.wanting)
			}
		}
	}
	for i := range l.out.Answers {
		a := &l.out.Answers[i]
		if m := l.model(a.Grant.Model); m != nil {
			c := batching.Candidate{}
			if k := l.candidateOf(a.Grant.Model); k != nil {
				c, k.Model = k.Candidate, mailed
			}
			l.mailPaged(a.Grant.Model, m, a, &c)
		} else {
			l.returnLoop(a)
		}
	}
	for i := range l.out.Candidates {
		if c := &l.out.Candidates[i]; c.Model != mailed {
			l.mailPaged(c.Model, l.served[c.Model], nil, &c.Candidate)
		}
	}
	for _, id := range l.touched {
		if m := l.model(id); m != nil && m.wanting.touched {
			l.mailPaged(id, m, nil, nil)
		}
	}
	l.touched = l.touched[:0]
}

// mailPaged puts a model's mail; c nil: its candidate is as it was. The rank is woken at once: a load may have to
// begin, and a lead may have the candidate due before its exec.
func (l *modelLoop) mailPaged(id wire.ModelID, m *served, a *rank.Answer, c *batching.Candidate) {
	w := m.wanting
	if a != nil {
		w.told.size = l.sizeOf(a.Batch)
		w.known -= int(w.told.size)
	}
	n := l.shard.Queued(id)
	latest, alone := l.shard.Alone(id)
	came := n - (w.known - w.dropped)
	if came > 0 {
		w.told.came += uint32(came)
		w.told.latest = latest // of requests that are queued again
		if w.fresh {
			w.told.latest = w.latest
		}
	}
	w.told.left += uint32(w.dropped + max(0, -came))
	w.told.alone = alone
	w.known, w.dropped, w.fresh, w.touched = n, 0, false, false
	m.box.putWants(a, c, &w.told)
	l.engine.tell(id, m.box, mono.Past)
}

// sizeOf is how many requests a batch has that was just made; 0: none was.
func (l *modelLoop) sizeOf(b wire.BatchID) uint32 {
	for i := range l.out.Dispatches {
		if d := &l.out.Dispatches[i]; d.Batch == b {
			return uint32(len(d.Requests))
		}
	}
	return 0
}
