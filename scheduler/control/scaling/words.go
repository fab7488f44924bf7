package scaling

import (
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/autoscale"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Actions of an Advice.
const (
	Keep  = "keep"  // nothing is to change
	Add   = "add"   // replicas are missing
	Await = "await" // what was ordered is on its way, or late
	Drain = "drain" // replicas end what they have, and go then
	Wait  = "wait"  // a change is due, and has to wait: for its cool-down, or for a limit
	Spare = "spare" // replicas could go, and nobody is to act
)

// Advice is how a group stands.
type Advice struct {
	Action string
	Why    string // in words

	GPUs    int     // that serve
	Want    int     // that are to
	Least   int     // by limits and hints
	Need    float64 // GPUs that deferral alone would keep busy, when they were most in the last epoch
	BadRate float64 // of the last epoch
	Idle    float64 // share of GPUs that deferral alone would leave idle

	Size    int      // replicas that the scaler is to have
	Settled bool     // Size has all that was on its way when this controller began: it may be smaller than what there is
	PerUnit int      // GPUs of each
	Serving int      // replicas that serve
	OnOrder int      // GPUs that may come within the lead time
	Late    int      // replicas that were asked for, and are late
	Dead    []string // replicas that were there, do not serve, and do not come back
	Leaving []string // replicas that get nothing new, since they are to go
	Remove  []string // of these, those that may be removed now; the highest first

	Try   int    // how often the scaler was asked for Size; 0: not yet
	Error string // what the last try failed with
	Parts []PartAdvice
}

// PartAdvice is how a sub-cluster stands.
type PartAdvice struct {
	Name        string
	GPUs        int
	Need        float64
	BadRate     float64
	Idle        float64
	Add, Remove int
	Why         string
}

// Advice is how the group stands.
func (g *Group) Advice() Advice {
	t := g.tally()
	a := Advice{GPUs: t.gpus, Want: max(g.want.least, min(t.gpus, g.want.most)), Least: g.want.floor, Size: g.size, Settled: g.settled(), PerUnit: g.unit(), Serving: t.alive, Try: g.order.Try, Error: g.failed}
	if g.order.Size != g.size {
		a.Try = 0
	}
	answered, bad := int64(0), int64(0)
	for _, p := range g.parts {
		a.Need += p.last.Need
		answered, bad = answered+p.last.Answered, bad+p.last.Bad
		a.Parts = append(a.Parts, p.words())
	}
	a.BadRate, a.Idle = rate(bad, answered), idle(a.Need, t.gpus)
	if a.OnOrder = t.waited * g.unit(); g.punctual() {
		a.OnOrder += t.pending * g.unit()
	} else {
		a.Late = t.pending
	}
	for i := len(g.members) - 1; i >= 0; i-- {
		m := g.members[i]
		switch {
		case m.removed:
			a.Remove = append(a.Remove, m.Name)
		case !m.leaving && !g.alive(m) && !g.expected(m):
			a.Dead = append(a.Dead, m.Name)
		}
		if m.leaving {
			a.Leaving = append(a.Leaving, m.Name)
		}
	}
	a.Action, a.Why = g.action(&t)
	if g.cfg.Advises {
		g.advise(&t, &a)
	}
	return a
}

// action is what the group does, and why.
func (g *Group) action(t *tally) (action, why string) {
	switch {
	case g.begun == mono.Never:
		return Wait, "nothing is known of its replicas yet"
	case !g.want.known:
		return Wait, "the first epoch has not ended"
	}
	why = g.reason(t)
	missing := g.want.least - t.gpus
	switch {
	case missing > 0 && g.cfg.Absolute && !g.settled():
		return Wait, fmt.Sprintf("%d GPUs are missing, and may be ordered in %s, when what was on its way at the controller's start has come: %s", missing, g.left(g.begun.Add(max(g.cfg.CoolUp, g.cfg.Lead))), why)
	case g.draining != mono.Never:
		return Drain, fmt.Sprintf("%d replicas get nothing new, and go when they have ended what they have: %s", g.drains(), why)
	case g.failed != "":
		return Await, fmt.Sprintf("the scaler failed (try %d, again in %s): %s; %s", g.order.Try, g.left(g.again), g.failed, why)
	case missing > 0 && g.short(t) <= 0:
		return Await, fmt.Sprintf("%d GPUs are on order: %s", missing, why)
	case missing > 0 && g.full(t):
		return Wait, fmt.Sprintf("%d GPUs are missing, and there may be no more than %d in all: %s", missing, g.cfg.Max, why)
	case missing > 0 && t.pending > 0:
		return Await, fmt.Sprintf("%s: %s", lateText(g, t), why)
	case missing > 0 && !g.cool(g.cfg.CoolUp):
		return Wait, fmt.Sprintf("%d GPUs are missing, and may be ordered in %s: %s", missing, g.left(g.changed.Add(g.cfg.CoolUp)), why)
	case missing > 0:
		return Add, fmt.Sprintf("%d GPUs are missing: %s", missing, why)
	case t.gpus-g.want.most >= g.unit() && !g.cool(g.cfg.CoolDown):
		return Wait, fmt.Sprintf("%d GPUs are to spare, and go in %s if they stay so: %s", t.gpus-g.want.most, g.left(g.changed.Add(g.cfg.CoolDown)), why)
	}
	return Keep, why
}

// advise says what there should be, where nobody acts.
func (g *Group) advise(t *tally, a *Advice) {
	a.Try = 0
	if missing := g.want.least - t.gpus; missing > 0 {
		a.Size = min(t.alive+t.dead+g.units(missing), max(t.alive+t.dead, g.cfg.Max/g.unit()))
		return
	}
	if g.now.Sub(g.begun) < g.cfg.CoolDown || t.waited > 0 {
		return
	}
	if who, n := g.spare(t); n > 0 {
		a.Size, a.Action = g.size-n, Spare
		a.Why = fmt.Sprintf("%d replicas are to spare, and nobody is to act (control.autoscale.scaler): %s", n, a.Why)
		for _, m := range who {
			a.Leaving = append(a.Leaving, m.Name)
		}
	}
}

// full: no more replicas may be ordered.
func (g *Group) full(t *tally) bool { return g.size >= g.cfg.Max/g.unit() && t.pending == 0 }

func (g *Group) left(until mono.Time) string {
	if until == mono.Never {
		return span(0)
	}
	return span(until.Sub(g.now))
}

// span writes a span in whole seconds: "1h5m0s".
func span(d mono.Dur) string {
	s := int64(max(0, d) / mono.Second)
	switch {
	case s >= 3600:
		return fmt.Sprintf("%dh%dm%ds", s/3600, s/60%60, s%60)
	case s >= 60:
		return fmt.Sprintf("%dm%ds", s/60, s%60)
	}
	return fmt.Sprintf("%ds", s)
}

// reason is what calls for the GPUs that are wanted.
func (g *Group) reason(t *tally) string {
	need, n := 0.0, 0
	var loud []string
	for _, p := range g.parts {
		need += p.last.Need
		n += p.last.GPUs
		if p.advice.Add > 0 || p.advice.Remove > 0 {
			loud = append(loud, p.text())
		}
	}
	text := fmt.Sprintf("%d GPUs serve, deferral alone would keep %.1f busy (idle share %.0f %%)", t.gpus, need, 100*idle(need, t.gpus))
	if g.want.hint != "" && g.want.least == g.want.floor {
		text += fmt.Sprintf("; at least %d by the schedule %q", g.want.floor, g.want.hint)
	} else if g.want.least == g.want.floor && g.want.floor > 1 {
		text += fmt.Sprintf("; at least %d by min", g.want.floor)
	}
	if dead := t.dead - t.waited; dead > 0 {
		text += fmt.Sprintf("; %d replicas are there and serve nothing: they are not counted", dead)
	}
	if len(loud) > partsTold {
		loud = append(loud[:partsTold], "and more")
	}
	if len(loud) > 0 {
		text += "; " + strings.Join(loud, "; ")
	}
	return text
}

// partsTold is how many sub-clusters a reason names.
const partsTold = 3

// text is what a sub-cluster calls for.
func (p *part) text() string {
	name := p.name
	e, a := &p.last, p.advice
	switch a.Why {
	case autoscale.BadRate:
		return fmt.Sprintf("%s: bad rate %.1f %% on %d GPUs, which %d more would cure", name, 100*rate(e.Bad, e.Answered), e.GPUs, a.Add)
	case autoscale.Need:
		return fmt.Sprintf("%s: needs %.1f and a reserve, %d more than its %d GPUs", name, e.Need, a.Add, e.GPUs)
	case autoscale.Spare:
		return fmt.Sprintf("%s: %d of its %d GPUs are to spare above a need of %.1f and its reserve", name, a.Remove, e.GPUs, e.Need)
	}
	return fmt.Sprintf("%s: %+d GPUs (%s)", name, a.Add-a.Remove, a.Why)
}

func (p *part) words() PartAdvice {
	return PartAdvice{Name: p.name, GPUs: p.last.GPUs, Need: p.last.Need, BadRate: rate(p.last.Bad, p.last.Answered), Idle: idle(p.last.Need, p.last.GPUs),
		Add: p.advice.Add, Remove: p.advice.Remove, Why: p.advice.Why.String()}
}

func rate(bad, answered int64) float64 {
	if answered <= 0 {
		return 0
	}
	return float64(min(max(0, bad), answered)) / float64(answered)
}

// idle is the share of GPUs that deferral alone would leave idle.
func idle(need float64, gpus int) float64 {
	if gpus <= 0 {
		return 0
	}
	return max(0, 1-need/float64(gpus))
}

func lateText(g *Group, t *tally) string {
	return fmt.Sprintf("%d replicas that were asked for %s ago have not come; asked %d times, again in %s: look at what starts them", t.pending, span(g.now.Sub(g.first)), max(1, g.order.Try), g.left(g.again))
}

func stillText(name string, try int) string {
	return fmt.Sprintf("replica %s is still there, and was to be removed: the scaler is asked again (try %d)", name, try+1)
}

func drainText(g *Group, who []*member, n int) string {
	var names []string
	for i, m := range who {
		if i == partsTold {
			names = append(names, "...")
			break
		}
		names = append(names, m.Name)
	}
	return fmt.Sprintf("%d of %d replicas are to go (%s): their GPUs drain first", n, g.size, strings.Join(names, ", "))
}

func backText(g *Group, n int, why string) string {
	return fmt.Sprintf("%d of %d replicas that were to go stay: %s", n, g.size, why)
}
