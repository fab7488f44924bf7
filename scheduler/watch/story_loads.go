package watch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Loading is a load of a model's weights.
type Loading struct {
	ID       wire.BatchID // the order's number
	GPU      wire.GPUID
	Why      Why
	Pages    int
	Sent     mono.Time // ordered at
	Exec     mono.Time // planned
	Until    mono.Time // likewise
	Start    mono.Time // real, if Reported
	End      mono.Time // likewise
	Reported bool
	OK       bool      // the weights came
	Room     []Evicted // who had to go for it
}

// Evicted is weights that went.
type Evicted struct {
	GPU  wire.GPUID
	Name string // of the model
	At   mono.Time
	Used mono.Time // last, with a deadline; Past: never
	Why  Why
	For  string // to make Room: the model that came
}

// to is when its weights are there, as far as is known.
func (l *Loading) to() mono.Time {
	if l.Reported {
		return l.End
	}
	return l.Until
}

// loads is what is known of a model's weights around a request: the loads, in order, where they were, and what went last.
type loads struct {
	all   []*Loading
	at    map[wire.GPUID]bool // GPUs that had them while the request waited, or had not; others: not known
	gone  *Evicted            // the last that went before the request came
	rooms []Evicted           // all that made room for a load of the model
}

// take takes an event of the request's pool; t's model is what it is about.
func (l *loads) take(e *Event, t *Story, s *State) {
	if e.Kind == Evict && e.Why == Room && e.For == t.Model {
		l.rooms = append(l.rooms, evicted(e, s))
	}
	if e.Model != t.Model || e.At > max(t.Ended, t.Request.Deadline) {
		return
	}
	early := e.At <= t.came()
	switch e.Kind {
	case Load:
		l.all = append(l.all, &Loading{ID: e.Batch, GPU: e.GPU, Why: e.Why, Pages: int(e.Size), Sent: e.At, Exec: e.Exec, Until: e.Until})
	case Loaded:
		if i := slices.IndexFunc(l.all, func(x *Loading) bool { return x.ID == e.Batch }); i >= 0 {
			x := l.all[i]
			x.Start, x.End, x.Reported, x.OK = e.Exec, e.Until, true, e.Why == Arrived
		}
		if t.Last == 0 || e.Until <= t.Last {
			l.at[e.GPU] = e.Why == Arrived
		}
	case Evict:
		if early {
			l.at[e.GPU] = false
			gone := evicted(e, s)
			l.gone = &gone
		}
	case Batch:
		l.at[e.GPU] = true
	}
}

func evicted(e *Event, s *State) Evicted {
	v := Evicted{GPU: e.GPU, Name: s.Name(e.Model), At: e.At, Used: e.Until, Why: e.Why}
	if e.Why == Room {
		v.For = s.Name(e.For)
	}
	return v
}

// waitedFor is the load that a request waited for: of one that left in a batch, the one before it on that GPU, if it was under
// way when the request came; else the one that would have been there first.
func (l *loads) waitedFor(t *Story) (best *Loading) {
	for _, x := range l.all {
		switch {
		case x.to() <= t.came():
		case t.Own != nil && (x.GPU != t.Own.GPU || x.Sent > t.Own.Sent):
		case best == nil || t.Own != nil || x.to() < best.to():
			best = x
		}
	}
	if best != nil {
		for _, v := range l.rooms {
			if v.GPU == best.GPU && v.At == best.Sent {
				best.Room = append(best.Room, v)
			}
		}
	}
	return best
}

// tellLoads tells of a request of a paged pool what load it waited for, and why there had to be one.
func (t *Story) tellLoads(l *loads) {
	t.Load = l.waitedFor(t)
	if t.Load == nil && t.Reason != wire.ReasonCold || t.Load != nil && t.Load.Why != Cold {
		return
	}
	t.Gone = l.gone
}

// holders leaves of the GPUs those that are known to have had the model's weights: no other could have run it.
func (l *loads) holders(gpus []row) []row {
	return slices.DeleteFunc(gpus, func(w row) bool { return !l.at[w.gpu] })
}

// loadSteps are what happened to the weights.
func (t *Story) loadSteps(s *State, say func(mono.Time, string, ...any)) {
	if g := t.Gone; g != nil {
		say(g.At, "its model's weights go from %s%s", s.GPUName(t.Pool, g.GPU), g.why())
	}
	l := t.Load
	if l == nil {
		return
	}
	why := "no GPU has its model's weights"
	if l.Why == Copy {
		why = "a further copy of its model's weights"
	}
	say(l.Sent, "%s: their load onto %s is ordered (%d pages), to end at %s", why, s.GPUName(t.Pool, l.GPU), l.Pages, t.at(l.Until))
	if len(l.Room) > 0 {
		say(l.Sent, "%s", t.makeRoom())
	}
	switch {
	case !l.Reported:
	case !l.OK:
		say(l.End, "the load fails")
	default:
		say(l.End, "its model's weights are on %s: copied in %v, %s", s.GPUName(t.Pool, l.GPU), span(l.End.Sub(l.Start)), offPlan(l.End.Sub(l.Until)))
	}
}

// roomMost is how many that made room are named.
const roomMost = 3

// makeRoom says who went for the load.
func (t *Story) makeRoom() string {
	var names []string
	for _, v := range t.Load.Room[:min(len(t.Load.Room), roomMost)] {
		names = append(names, fmt.Sprintf("%s (%s)", v.Name, v.use()))
	}
	text := strings.Join(names, ", ")
	if more := len(t.Load.Room) - roomMost; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(t.Load.Room) == 1 {
		return text + " makes room"
	}
	return text + " make room"
}

// use is when they were used last. Those that were loaded for best effort, and only used by it, say no instant.
func (v *Evicted) use() string {
	if v.Used == mono.Past {
		return "used for best effort alone"
	}
	return fmt.Sprintf("used last %v before", span(v.At.Sub(v.Used)))
}

// why says why weights went.
func (v *Evicted) why() string {
	switch v.Why {
	case Room:
		return fmt.Sprintf(", to make room for %s (%s)", v.For, v.use())
	case Removed:
		return ", for the model was removed"
	}
	return ", where nobody counted on them"
}

// loadWait is the wait for a load in one sentence; "": there was none.
func (t *Story) loadWait(s *State) string {
	l := t.Load
	if l == nil {
		return ""
	}
	return fmt.Sprintf("Its model's weights were not there: they came to %s at %s.", s.GPUName(t.Pool, l.GPU), t.at(l.to()))
}

// cold is why a request was given up that no load could save.
func (t *Story) cold(s *State) string {
	text := "no GPU had its model's weights"
	switch l := t.Load; {
	case l == nil:
		text += ", and no load of them could have ended in time"
	case l.Reported && !l.OK:
		text += fmt.Sprintf(", and their load onto %s failed", s.GPUName(t.Pool, l.GPU))
	default:
		text += fmt.Sprintf(", and their load onto %s ended at %s", s.GPUName(t.Pool, l.GPU), t.at(l.to()))
		if t.Last > 0 && l.to() > t.Last {
			text += fmt.Sprintf(", %v too late", span(l.to().Sub(t.Last)))
		}
	}
	if t.Gone != nil {
		text += fmt.Sprintf("; they went from %s at %s%s", s.GPUName(t.Pool, t.Gone.GPU), t.at(t.Gone.At), t.Gone.why())
	}
	return text
}

// coldSaved is for those.
func (t *Story) coldSaved(say func(string, ...any)) {
	if l := t.Load; l != nil && t.Last > 0 && l.to() > t.Last {
		say("an SLO longer by %v", span(l.to().Sub(t.Last)))
	}
	if t.Gone != nil && t.Gone.Why == Room {
		say("more pages (paged.pages, or more GPUs): then nothing had gone for %s", t.Gone.For)
	}
	say("residency: resident in the model's configuration, which keeps its weights on all GPUs of the pool")
}
