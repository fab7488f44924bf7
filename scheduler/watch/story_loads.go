package watch

import (
	"cmp"
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

// Loader is what a GPU's loader had to do for other models while a request waited.
type Loader struct {
	GPU   wire.GPUID
	Loads int
	Until mono.Time // planned
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
	all    []*Loading
	at     map[wire.GPUID]bool      // GPUs that had them while the request waited, or had not; others: not known
	from   map[wire.GPUID]mono.Time // of those that had: since when, where their load is kept
	gone   *Evicted                 // the last that went before the request came, or before it was dropped
	rooms  []Evicted                // all that made room for a load of the model
	others []Loader                 // loads of other models while it waited
	since  mono.Time                // when what is kept begins
	last   mono.Time                // when they were ordered onto a GPU, or off one, last: also after the request; 0: not in what is kept
}

// take takes an event of the request's pool; t's model is what it is about.
func (l *loads) take(e *Event, t *Story, s *State) {
	if e.Kind == Evict && e.Why == Room && e.For == t.Model {
		l.rooms = append(l.rooms, evicted(e, s))
	}
	if e.Model != t.Model {
		l.other(e, t)
		return
	}
	if e.Kind == Load || e.Kind == Evict {
		l.last = e.At
	}
	if e.At > max(t.Ended, t.Request.Deadline) {
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
			l.at[e.GPU], l.from[e.GPU] = e.Why == Arrived, e.Until
		}
	case Evict:
		if early {
			l.at[e.GPU] = false
		}
		if early || t.Outcome == Dropped && e.At <= t.Ended {
			gone := evicted(e, s)
			l.gone = &gone
		}
	case Batch:
		l.at[e.GPU] = true
	}
}

// other takes an event of another model.
func (l *loads) other(e *Event, t *Story) {
	if e.Kind != Load || e.At > t.Ended || e.Until <= t.came() {
		return
	}
	at := slices.IndexFunc(l.others, func(x Loader) bool { return x.GPU == e.GPU })
	if at < 0 {
		at = len(l.others)
		l.others = append(l.others, Loader{GPU: e.GPU})
	}
	x := &l.others[at]
	x.Loads, x.Until = x.Loads+1, max(x.Until, e.Until)
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
func (t *Story) tellLoads(g *gathered, s *State) {
	l := &g.loads
	t.Load = l.waitedFor(t)
	nowhere := t.Outcome == Dropped && (t.Reason == wire.ReasonCold || t.waited() && len(g.gpus) == 0)
	switch {
	case t.Load != nil && t.Load.Why == Cold:
		t.Gone = l.gone
	case t.Load == nil && nowhere:
		t.Gone, t.Others = l.gone, l.others
		slices.SortFunc(t.Others, func(a, b Loader) int { return cmp.Or(cmp.Compare(a.Until, b.Until), cmp.Compare(a.GPU, b.GPU)) })
	}
	if m := s.Model(t.Model); nowhere && m != nil && l.last < t.came() && m.counted.Sub(max(l.last, l.since)) > 2*MemoryEvery {
		t.Held, t.heldKnown = m.counts.Held, true // nothing has changed since
	}
}

// judgeCold names the cause where no GPU is known to have had its model's weights.
func (t *Story) judgeCold() Cause {
	switch {
	case t.Alone > 0 && t.First > t.Last:
		return CauseLateRecord
	case t.Reason == wire.ReasonShed:
		return CauseOverload
	case t.Load != nil && t.Load.Why == Cold, t.heldKnown && t.Held == 0, t.Gone != nil && !t.heldKnown && !t.Gaps:
		return CauseCold
	}
	return CauseUnknown
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
	case l == nil && t.Reason == wire.ReasonCold:
		text += ", and no load of them could have ended in time" + t.meanwhile(s)
	case l == nil:
		text += ", and no load of them was ordered while it waited" + t.meanwhile(s)
	case l.Reported && !l.OK:
		text += fmt.Sprintf(", and their load onto %s failed", s.GPUName(t.Pool, l.GPU))
	default:
		text += fmt.Sprintf(", and their load onto %s %s", s.GPUName(t.Pool, l.GPU), t.ended(l))
	}
	switch {
	case t.Gone != nil:
		text += fmt.Sprintf("; they went from %s at %s%s", s.GPUName(t.Pool, t.Gone.GPU), t.at(t.Gone.At), t.Gone.why())
	case t.Load == nil:
		text += "; when they went from one last is not among the events, of which a minute is kept"
	}
	return text
}

// ended is when a load that was of no use ended.
func (t *Story) ended(l *Loading) string {
	text := "ended at " + t.at(l.to())
	if !l.Reported {
		text = "was to end at " + t.at(l.to())
	}
	switch {
	case t.Last > 0 && l.to() > t.Last:
		text += fmt.Sprintf(", %v too late", span(l.to().Sub(t.Last)))
	case l.Sent > t.Ended:
		text += ", ordered only after it was given up"
	}
	return text
}

// loadersMost is how many loaders are named.
const loadersMost = 3

// meanwhile is what loaders did for others, those that were done first before the others.
func (t *Story) meanwhile(s *State) string {
	if len(t.Others) == 0 {
		return "; for other models nothing was loaded, either"
	}
	var of []string
	for _, x := range t.Others[:min(len(t.Others), loadersMost)] {
		of = append(of, fmt.Sprintf("%d onto %s until %s", x.Loads, s.GPUName(t.Pool, x.GPU), t.at(x.Until)))
	}
	text := "; loads of other models were under way, " + strings.Join(of, ", ")
	if more := len(t.Others) - loadersMost; more > 0 {
		text += fmt.Sprintf(", and others onto %d more", more)
	}
	return text
}

// whereabouts is what is known of the weights where nothing tells why.
func (t *Story) whereabouts(s *State) string {
	switch {
	case len(t.GPUs) > 0 && t.paged:
		var names []string
		for i := range t.GPUs[:min(len(t.GPUs), roomMost)] {
			names = append(names, s.GPUName(t.Pool, t.GPUs[i].GPU))
		}
		return "; its model's weights were on " + strings.Join(names, ", ") + t.andMore()
	case t.Held > 0:
		return fmt.Sprintf("; its model's weights were on a GPU or on their way there (%d in all), which is not among them, either", t.Held)
	case t.paged:
		return "; nor is where its model's weights were"
	}
	return ""
}

func (t *Story) andMore() string {
	if more := len(t.GPUs) - roomMost; more > 0 {
		return fmt.Sprintf(" and %d more", more)
	}
	return ""
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
