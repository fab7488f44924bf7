package scaling

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Replica is a backend as the scheduler sees it. What a scaler, or Kubernetes, believes of it does
// not matter: one that is routable and dead has no GPU here.
type Replica struct {
	Name    string
	There   int  // its GPUs in service: they serve, or could
	Serving int  // of them, seated in a sub-cluster
	Left    int  // GPUs that have, or may get, something to do: serving or draining
	Fixed   bool // it must not go, nor those below it: it has other GPUs, too
}

// Part is a sub-cluster since the Observation before.
type Part struct {
	Name          string
	GPUs          int     // that serve
	Need          float64 // GPUs that deferral alone would keep busy
	Busy          float64 // share of the GPUs' time; where the need is not known, it stands for it
	Answered, Bad int64   // requests since the last Observation
}

// Observation is a group as it is now, to be handed in each second or so.
type Observation struct {
	Parts    []Part
	Replicas []Replica
	Week     mono.Dur // since Monday 0:00, where the hints' clock is
}

// member is a replica that was seen.
type member struct {
	Replica
	ordinal int // in its name; -1: none

	since  mono.Time // it serves since then; Never: it does not
	served mono.Time // when it last did; Never: not yet
	seen   mono.Time // when it came, or came back
	died   mono.Time // when it last stopped being there; Never: not yet
	deaths int       // within flakyFor of each other

	leaving bool // it gets nothing new, and is to go
	removed bool // the scaler was asked to remove it
}

// ordinalOf is the number at the end of a name, as a StatefulSet's pods have it; -1: there is none.
func ordinalOf(name string) (stem string, ordinal int) {
	i := strings.LastIndexByte(name, '-')
	digits := name[i+1:]
	n, err := strconv.Atoi(digits)
	if i < 0 || err != nil || n < 0 || n >= unlimited || strconv.Itoa(n) != digits {
		return name, -1
	}
	return name[:i], n
}

// stable is how long one must have served to be relied on when others go.
func (g *Group) stable(m *member) bool {
	return m.since != mono.Never && g.now.Sub(m.since) >= g.cfg.CoolDown && !g.flaky(m)
}

// flakyFor is within how many lead times, or cool-downs, two deaths make a replica one that is not
// counted on.
const flakyFor = 4

func (g *Group) flakySpan() mono.Dur { return flakyFor * max(g.cfg.Lead, g.cfg.CoolDown) }

func (g *Group) flaky(m *member) bool {
	return m.deaths >= 2 && g.now.Sub(m.died) < g.flakySpan()
}

// alive: it serves, or did a moment ago and moves from one sub-cluster to another.
func (g *Group) alive(m *member) bool {
	return m.There > 0 && m.served != mono.Never && g.now.Sub(m.served) <= g.cfg.Lead
}

// expected: it does not serve, and may be about to.
func (g *Group) expected(m *member) bool {
	if g.flaky(m) || g.alive(m) {
		return false
	}
	if m.There == 0 { // it is started again by whoever keeps it
		return m.died != mono.Never && g.now.Sub(m.died) < g.cfg.Lead
	}
	return m.served == mono.Never && g.now.Sub(m.seen) < g.cfg.Lead
}

// look takes the replicas in.
func (g *Group) look(replicas []Replica) {
	there := map[string]*Replica{}
	for i := range replicas {
		there[replicas[i].Name] = &replicas[i]
	}
	for _, m := range g.members {
		r := there[m.Name]
		delete(there, m.Name)
		if r == nil {
			r = &Replica{Name: m.Name}
		}
		g.met(m, r)
	}
	for i := range replicas {
		if r := &replicas[i]; there[r.Name] == r && r.There > 0 {
			_, ordinal := ordinalOf(r.Name)
			m := &member{Replica: Replica{Name: r.Name}, ordinal: ordinal, since: mono.Never, served: mono.Never, died: mono.Never, seen: g.now}
			g.members = append(g.members, m)
			g.met(m, r)
		}
	}
	slices.SortFunc(g.members, func(a, b *member) int { return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), natural(a.Name, b.Name)) })
	g.forget()
	g.ordered = g.isOrdered()
	for _, m := range g.members {
		g.most = max(g.most, m.There)
	}
}

// forget those that were removed and are gone: their names may come back.
func (g *Group) forget() {
	n := len(g.members)
	g.members = slices.DeleteFunc(g.members, func(m *member) bool { return m.removed && m.There == 0 })
	g.stale = g.stale || len(g.members) < n
}

// met is what a replica has become.
func (g *Group) met(m *member, r *Replica) {
	had := m.There
	m.Replica = *r
	switch {
	case r.There == 0 && had > 0:
		if m.died == mono.Never || g.now.Sub(m.died) >= g.flakySpan() {
			m.deaths = 0
		}
		m.deaths++
		m.died, m.since = g.now, mono.Never
	case r.There > 0 && had == 0:
		m.seen, m.served = g.now, mono.Never
	}
	if r.Serving > 0 {
		if m.since == mono.Never {
			m.since = g.now
		}
		m.served = g.now
	} else if !g.alive(m) {
		m.since = mono.Never
	}
}

// natural compares names so that a2 is before a10.
func natural(a, b string) int {
	x, y := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(strings.Compare(x, y), cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// ordinalsBeyond is how far ordinals may be beyond that.
const ordinalsBeyond = 8

// isOrdered: the replicas are those of one StatefulSet, so the highest ordinals go first. Numbers that
// are far beyond what there may be are none: a backend that nobody has named has its process's.
func (g *Group) isOrdered() bool {
	if len(g.members) == 0 {
		return g.ordered
	}
	most := 2 * len(g.members)
	if g.cfg.Max < unlimited {
		most = 2 * g.cfg.Max / g.unit()
	}
	if g.members[len(g.members)-1].ordinal >= most+ordinalsBeyond {
		return false
	}
	first, _ := ordinalOf(g.members[0].Name)
	for i, m := range g.members {
		stem, n := ordinalOf(m.Name)
		if n < 0 || stem != first || i > 0 && n == g.members[i-1].ordinal {
			return false
		}
	}
	return true
}

// tally is what there is, in replicas and GPUs; leaving ones are not counted.
type tally struct {
	alive, dead       int // replicas; dead: seen, and not serving
	waited            int // of the dead: expected back
	pending           int // replicas that the scaler was asked for, and nobody has seen
	gpus, stable      int // GPUs of those alive; of those that are relied on
	leaving, finished int // replicas that are to go; of them, those with nothing left
}

func (g *Group) tally() (t tally) {
	for _, m := range g.members {
		switch {
		case m.leaving:
			t.leaving++
			if m.Left == 0 {
				t.finished++
			}
		case g.alive(m):
			t.alive++
			t.gpus += m.There
			if g.stable(m) {
				t.stable += m.There
			}
		default:
			t.dead++
			if g.expected(m) {
				t.waited++
			}
		}
	}
	t.pending = max(0, g.size-t.alive-t.dead-g.drains())
	return t
}

// drains are the replicas that are to go and that the scaler still is to have.
func (g *Group) drains() (n int) {
	for _, m := range g.members {
		if m.leaving && !m.removed {
			n++
		}
	}
	return n
}

// adopt takes over what others have asked the scaler for: replicas that nobody here has ordered.
// Dead ones beyond the size are those that others have taken the place of.
func (g *Group) adopt() {
	n := 0
	if g.cfg.Advises { // whatever others do
		g.size = 0
	}
	for _, m := range g.members {
		if m.removed || m.There == 0 {
			continue
		}
		n++
		if g.ordered {
			g.size = max(g.size, m.ordinal+1)
		}
	}
	g.size = max(g.size, n)
	if g.ordered {
		return
	}
	dead := 0
	for _, m := range g.members {
		if !m.removed && m.There == 0 {
			dead++
		}
	}
	for excess := n + dead - g.size; excess > 0; excess-- {
		oldest := -1
		for i, m := range g.members {
			if m.There == 0 && !m.removed && (oldest < 0 || m.died < g.members[oldest].died) {
				oldest = i
			}
		}
		g.members = slices.Delete(g.members, oldest, oldest+1)
	}
}

// unit is how many GPUs a replica has.
func (g *Group) unit() int {
	if g.cfg.PerUnit > 0 {
		return g.cfg.PerUnit
	}
	return max(1, g.most)
}

// units are the replicas that so many GPUs take.
func (g *Group) units(gpus int) int { return (max(0, gpus) + g.unit() - 1) / g.unit() }
