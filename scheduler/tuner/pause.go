package tuner

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// A scheduler stands still now and then: its process or its thread is not run. What was due meanwhile is late then, and
// what came meanwhile is heard of at the end, all at once. That is dear where much waits until the last moment, and a
// batch on an idle GPU would have been safe. So the shadows stand still when the scheduler does, and in dreams as often.
//
// Rejected: margins alone. They keep a batch from being late by what is usual; of a pause of 20 ms in two seconds they take
// a part only, for they cost the more GPU time the larger they are.

// PauseLeast is the shortest pause that a Tuner should be told of.
const PauseLeast = mono.Millisecond

// pauseMost is the longest that counts: a process that was stopped by hand says nothing of what comes.
const pauseMost = mono.Second

// pauseMark is the model of an arrival that is the begin of a pause, as long as its budget.
const pauseMark = ^wire.ModelID(0)

// Paused says that the scheduler stood still. What came in between is told afterwards, as having come at about its end.
func (t *Tuner) Paused(from, to mono.Time) {
	from = max(from, t.last) // until then others were heard
	if t.deaf || t.resumed || t.begins == 0 || to <= from || to.Sub(from) > pauseMost || len(t.next) >= t.passLimit() {
		return
	}
	t.dreams.paused(from, to.Sub(from))
	t.clock = t.clock.Add(from.Sub(t.last))
	t.last, t.stood = from, to
	t.next = append(t.next, arrival{t.clock, to.Sub(from), pauseMark})
	t.marks++
}

// hand is what a shadow makes of an arrival.
func (t *Tuner) hand(s *shadow, a *arrival) {
	switch {
	case a.model == pauseMark:
		s.pause(a)
	case !t.serves(a.model):
	case a.at >= s.stands:
		s.arrive(a.at, a.budget, a.model)
	default: // it is heard of when the pause ends
		if budget := a.budget - s.stands.Sub(a.at); t.tells(a.model, budget) {
			s.arrive(s.stands, budget, a.model)
		}
	}
}

// tells: a deadline that no setting could keep tells nothing.
func (t *Tuner) tells(id wire.ModelID, budget mono.Dur) bool {
	delay := t.delay.Sized(t.bytes[id])
	return budget >= t.served[id].Latency(1)+delay.Of(1)
}

// pause begins one, or goes on with one that has not ended. What is due when it begins is late already.
func (s *shadow) pause(a *arrival) {
	if a.at >= s.stands {
		s.advance(s.stands)
		s.advance(a.at - 1)
	}
	s.stands = max(s.stands, a.at.Add(a.budget))
}
