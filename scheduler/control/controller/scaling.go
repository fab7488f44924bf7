package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Scaler brings replicas and takes them away.
type Scaler interface {
	// Scale asks for o.Size replicas of a device type at a scheduler ("": the only one). Those in
	// o.Remove have nothing left. It may be asked for the same again. granted is how many there
	// will be, where that is known to be another number; else 0.
	Scale(ctx context.Context, deviceType, scheduler string, o scaling.Order) (granted int, err error)
}

// Scaling says who acts on the advice, and by which limits. The zero Scaling advises.
type Scaling struct {
	Kind   string                                 // for people: none, exec, kubernetes ["none"]
	Scaler Scaler                                 // nil: nobody, or whoever reads the advice
	Of     func(deviceType string) scaling.Config // [the defaults; nobody acts]
	Zone   *time.Location                         // of the schedule's clock [this host's]
}

func (s *Scaling) complete() {
	if s.Kind == "" {
		s.Kind = "none"
	}
	if s.Of == nil {
		s.Of = func(string) scaling.Config { return scaling.Config{Advises: true} }
	}
	if s.Zone == nil {
		s.Zone = time.Local
	}
}

// group is a scaling.Group with what belongs to it.
type group struct {
	cell       *cell
	deviceType string
	most       int // GPUs, as configured; 0: no limit
	core       *scaling.Group
	effects    scaling.Effects
	leave      []string
}

// scaled is what came of an order to the scaler.
type scaled struct {
	group   *group
	order   scaling.Order
	granted int
	failed  string
}

// scaleEvery is how often groups are looked at.
const scaleEvery = time.Second

// scale has all groups look at what there is, and carries out what they decide.
func (l *leading) scale(now mono.Time) {
	week := weekOf(time.Now().In(l.c.cfg.Scaling.Zone))
	for _, c := range l.cells {
		if !c.lead.Whole() {
			continue // nothing is known of what is there
		}
		census := c.lead.Census()
		for i := range census {
			l.groupOf(c, census[i].DeviceType)
		}
		several := inSeveral(census)
		for _, g := range l.groups {
			if g.cell == c {
				g.observe(now, week, census, several)
				l.carryOutScaling(now, g)
			}
		}
	}
	l.publish()
}

// groupOf is a device type's group, made if it is not there.
func (l *leading) groupOf(c *cell, deviceType string) *group {
	i, found := slices.BinarySearchFunc(l.groups, group{cell: c, deviceType: deviceType}, func(a *group, b group) int {
		return cmp.Or(cmp.Compare(a.cell.number, b.cell.number), strings.Compare(a.deviceType, b.deviceType))
	})
	if !found {
		cfg := l.c.cfg.Scaling.Of(deviceType)
		l.groups = slices.Insert(l.groups, i, &group{cell: c, deviceType: deviceType, most: cfg.Max, core: scaling.New(cfg)})
	}
	return l.groups[i]
}

// inSeveral are the backends with GPUs of several types: to remove one for the sake of one type
// would take the others along.
func inSeveral(census []lead.Census) map[string]bool {
	seen, several := map[string]bool{}, map[string]bool{}
	for i := range census {
		for _, b := range census[i].Backends {
			if seen[b.Name] {
				several[b.Name] = true
			}
			seen[b.Name] = true
		}
	}
	return several
}

// observe hands the group what there is of its type: nothing, if the census has none.
func (g *group) observe(now mono.Time, week mono.Dur, census []lead.Census, several map[string]bool) {
	o := scaling.Observation{Week: week}
	if i := slices.IndexFunc(census, func(c lead.Census) bool { return c.DeviceType == g.deviceType }); i >= 0 {
		for _, p := range census[i].Parts {
			o.Parts = append(o.Parts, scaling.Part{Name: p.Name, GPUs: p.GPUs, Need: p.Need, Busy: p.Busy, Answered: p.Answered, Bad: p.Bad})
		}
		for _, b := range census[i].Backends {
			o.Replicas = append(o.Replicas, scaling.Replica{Name: b.Name, There: b.There, Serving: b.Serving, Left: b.Left, Fixed: several[b.Name]})
		}
	}
	g.core.Observe(now, &o)
	g.core.Step(now, &g.effects)
}

// carryOutScaling does what a group has decided.
func (l *leading) carryOutScaling(now mono.Time, g *group) {
	e := &g.effects
	if e.Changed {
		g.leave = e.Leave
		var all []string
		for _, o := range l.groups {
			if o.cell == g.cell {
				all = append(all, o.leave...)
			}
		}
		g.cell.lead.Leave(now, all)
	}
	for _, text := range e.Notes {
		l.c.log.Info().Str("device_type", g.deviceType).Str("scheduler", g.cell.name).Msg(text)
	}
	for _, text := range e.Warnings {
		l.c.log.Warn().Str("device_type", g.deviceType).Str("scheduler", g.cell.name).Msg(text)
	}
	if o := e.Scale; o != nil {
		l.c.metrics.scales.WithLabelValues(g.cell.address, g.deviceType).Inc()
		l.c.log.Info().Str("device_type", g.deviceType).Str("scheduler", g.cell.name).Int("replicas", o.Size).Strs("remove", o.Remove).Int("try", o.Try).Str("why", o.Why).Msg("the scaler is asked")
		if s := l.c.cfg.Scaling.Scaler; s != nil {
			l.aside.Go(func() { l.ask(s, g, *o) })
		} else { // whoever reads the advice acts on it
			g.core.Asked(now, *o, 0, "")
		}
	}
	e.Reset()
}

// ask has the scaler act, beside the loop.
func (l *leading) ask(s Scaler, g *group, o scaling.Order) {
	r := scaled{group: g, order: o}
	granted, err := s.Scale(l.ctx, g.deviceType, g.cell.name, o)
	if r.granted = granted; err != nil {
		r.failed = err.Error()
		if l.ctx.Err() == nil {
			l.c.log.Error().Str("device_type", g.deviceType).Err(err).Msg("the scaler failed: it is asked again")
		}
	}
	select {
	case l.scaled <- r:
	case <-l.ctx.Done():
	}
}

// weekOf is the time since Monday 0:00, as clocks show it.
func weekOf(t time.Time) mono.Dur {
	days := (int(t.Weekday()) + 6) % 7
	return mono.Dur(((days*24+t.Hour())*60+t.Minute())*60+t.Second()) * mono.Second
}

// publish has the advice read by others.
func (l *leading) publish() {
	a := api.Advice{At: time.Now().UTC(), Scaler: l.c.cfg.Scaling.Kind, Groups: []api.ScaleGroup{}}
	for _, g := range l.groups {
		x := g.core.Advice()
		out := api.ScaleGroup{DeviceType: g.deviceType, Scheduler: g.cell.name, Action: x.Action, Why: x.Why, Size: x.Size, Settled: x.Settled, Unit: x.PerUnit,
			GPUs: x.GPUs, Want: x.Want, Min: x.Least, Max: g.most, Need: x.Need, BadRate: x.BadRate, Idle: x.Idle, Serving: x.Serving, OnOrder: x.OnOrder, Late: x.Late,
			Dead: none(x.Dead), Leaving: none(x.Leaving), Remove: none(x.Remove), Try: x.Try, Error: x.Error, Parts: []api.ScalePart{}}
		for _, p := range x.Parts {
			out.Parts = append(out.Parts, api.ScalePart{Name: p.Name, GPUs: p.GPUs, Need: p.Need, BadRate: p.BadRate, Idle: p.Idle, Add: p.Add, Remove: p.Remove, Why: p.Why})
		}
		a.Groups = append(a.Groups, out)
	}
	l.c.advice.Store(&a)
}

// none is an empty list where there is none.
func none(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// Advice implements api.Control.
func (c *Controller) Advice(ctx context.Context) (api.Advice, error) {
	if c.leads.Load() == nil {
		return api.Advice{}, c.notLeading(ctx)
	}
	if a := c.advice.Load(); a != nil {
		return *a, nil
	}
	return api.Advice{At: time.Now().UTC(), Scaler: c.cfg.Scaling.Kind, Groups: []api.ScaleGroup{}}, nil
}
