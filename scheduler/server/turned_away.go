package server

import "github.com/symphony-serving/symphony/transport/mono"

// turnedAway bounds the lines of refusals: a member that is refused dials on, and is
// refused for the same reason each time. Guarded by Server.mu.
type turnedAway struct{ last map[string]*refusal }

// refusal is what was told last of one who was refused.
type refusal struct {
	text string
	at   mono.Time
	left int // refusals since, without a line
}

const (
	againAfter    = 60 * mono.Second // the same is told again
	turnedAwayMax = 256              // names that are told apart; the others share a line
)

// worth reports whether a refusal is worth a line, and how many were left out before it.
func (t *turnedAway) worth(now mono.Time, who, text string) (left int, worth bool) {
	r := t.last[who]
	if r == nil && len(t.last) >= turnedAwayMax {
		t.forget(now)
	}
	if r == nil && len(t.last) >= turnedAwayMax {
		who, text = "", "" // names cost nothing: whoever invents them gets no line for each
		r = t.last[who]
	}
	if r == nil {
		if t.last == nil {
			t.last = map[string]*refusal{}
		}
		t.last[who] = &refusal{text: text, at: now}
		return 0, true
	}
	if r.text == text && now.Sub(r.at) < againAfter {
		r.left++
		return 0, false
	}
	left = r.left
	*r = refusal{text: text, at: now}
	return left, true
}

// forget makes room: those that were not refused for a while are told anew.
func (t *turnedAway) forget(now mono.Time) {
	for who, r := range t.last {
		if now.Sub(r.at) >= againAfter {
			delete(t.last, who)
		}
	}
}
