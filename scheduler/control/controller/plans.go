package controller

import (
	"context"
	"errors"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/store"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Plan implements api.Plans.
func (c *Controller) Plan(ctx context.Context) (api.Plan, error) {
	heads := c.inForce()
	if len(heads) == 0 {
		return api.Plan{}, nil
	}
	var plans []api.Plan
	for _, h := range heads {
		p, err := c.whole(ctx, h)
		if err != nil {
			return summed(append(plans, p), c.lost()), err
		}
		plans = append(plans, p)
	}
	return summed(plans, c.lost()), nil
}

// whole is a plan with its sub-clusters as they are now.
func (c *Controller) whole(ctx context.Context, h schema.Plan) (api.Plan, error) {
	out := planOut(h)
	_, parts, err := c.cfg.Store.Plan(ctx, h.Epoch)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return out, wrong(err, "")
	}
	var now map[string]catalog.SubClusterFacts
	if l := c.leads.Load(); l != nil {
		l.call(ctx, func() {
			cell := l.cells.find(h.Scheduler)
			if cell == nil {
				return
			}
			now = cell.lead.SubClusters()
			if epoch, ordered, done := cell.lead.Steps(); epoch == out.Epoch && out.State == api.PlanRollsOut {
				out.Steps, out.StepsDone = ordered, done
			}
		})
	}
	for _, p := range parts {
		f := now[p.Name]
		out.SubClusters = append(out.SubClusters, api.SubCluster{Name: p.Name, DeviceType: p.DeviceType, Scheduler: h.Scheduler, Models: p.Models, GPUs: p.GPUs, Need: p.Need,
			Seated: f.GPUs, Rate: f.Rate, Busy: f.Busy, Memory: memoryOut(f.Paged)})
	}
	return out, nil
}

func memoryOut(f *catalog.PagedFacts) *api.Memory {
	if f == nil {
		return nil
	}
	m := api.Memory(*f)
	return &m
}

// History implements api.Plans.
func (c *Controller) History(context.Context) (api.History, error) {
	out := api.History{Plans: []api.Plan{}}
	for _, h := range c.view.history() {
		out.Plans = append(out.Plans, planOut(h))
	}
	return out, nil
}

// notLeading is the answer to calls that only the leader can carry out.
func (c *Controller) notLeading(ctx context.Context) error {
	who, err := c.cfg.Store.Leader(ctx)
	switch {
	case err == nil && who.Name != c.cfg.Name:
		return api.Conflict("controller %s leads (%s), and this one does not: ask that one", who.Name, who.Address)
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return wrong(err, "")
	}
	return api.Away(retryAway, false, "no controller leads at the moment: try again")
}

// previewed computes what plans made now would be, one at a time; then, with the loop's goroutine,
// does what use says. Schedulers of which nothing is known have none, and are named; an error
// where that is so of all.
func (c *Controller) previewed(ctx context.Context, use func(cell *cell, p plan.Plan, notes []string)) (away []string, err error) {
	l := c.leads.Load()
	if l == nil {
		return nil, c.notLeading(ctx)
	}
	select {
	case c.preview <- struct{}{}:
		defer func() { <-c.preview }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for _, cell := range l.cells {
		switch err = c.previewOf(ctx, l, cell, use); {
		case errors.Is(err, lead.ErrNoScheduler) && len(away) < len(l.cells)-1:
			away = append(away, cell.name)
		case errors.Is(err, lead.ErrNoScheduler):
			return nil, api.Away(retryAway, false, "%v", err)
		case err != nil:
			return nil, err
		}
	}
	return away, nil
}

func (c *Controller) previewOf(ctx context.Context, l *leading, cell *cell, use func(cell *cell, p plan.Plan, notes []string)) error {
	var p *lead.Preview
	var err error
	if !l.call(ctx, func() { p, err = cell.lead.Preview() }) {
		return c.notLeading(ctx)
	}
	if err != nil {
		return err
	}
	end := mono.Now().Add(c.cfg.Effort / mono.Dur(len(l.cells)))
	p.Task.Solve(1, func(int64) bool { return mono.Now() < end && ctx.Err() == nil }, nil, 0)
	if !l.call(ctx, func() {
		var made plan.Plan
		if made, err = cell.lead.Previewed(p); err == nil {
			use(cell, made, p.Notes)
		}
	}) {
		return c.notLeading(ctx)
	}
	return err
}

// Apply implements api.Plans: what each scheduler has once it has made a plan, or found that nothing is
// to change. Those that are away have theirs made when they are back.
func (c *Controller) Apply(ctx context.Context) (api.Plan, error) {
	l := c.leads.Load()
	if l == nil {
		return api.Plan{}, c.notLeading(ctx)
	}
	before := map[*cell]uint64{}
	var err error
	if !l.call(ctx, func() {
		for _, cell := range l.cells {
			if away := cell.lead.Now(mono.Now()); away != nil {
				err = away
			} else {
				before[cell] = cell.lead.Sketched()
			}
		}
	}) {
		return api.Plan{}, c.notLeading(ctx)
	}
	if len(before) == 0 {
		return api.Plan{}, api.Away(retryAway, false, "%v; a plan is made when one is", err)
	}
	return c.awaitPlans(ctx, l, func(cell *cell) bool {
		sketched, asked := before[cell]
		return !asked || cell.lead.Finished() > sketched || !cell.lead.Whole() || len(cell.lead.Types()) == 0
	})
}

// Put rolls out a plan of people's own.
func (c *Controller) Put(ctx context.Context, spec api.PlanSpec) (api.Plan, error) {
	l := c.leads.Load()
	if l == nil {
		return api.Plan{}, c.notLeading(ctx)
	}
	var err error
	if !l.call(ctx, func() { err = l.put(mono.Now(), spec) }) {
		return api.Plan{}, c.notLeading(ctx)
	}
	var known *api.Error
	switch {
	case errors.As(err, &known):
		return api.Plan{}, err
	case errors.Is(err, plan.ErrInvalid):
		return api.Plan{}, &api.Error{Kind: api.KindInvalid, Field: "sub_clusters", Msg: err.Error()}
	case err != nil:
		return api.Plan{}, api.Away(retryAway, false, "%v", err)
	}
	return c.awaitPlans(ctx, l, func(*cell) bool { return true })
}

// planWait is how long plans may take to be made, beside what is computed, and stored; planLook is
// between two looks.
const (
	planWait = 3 * time.Second
	planLook = 20 * time.Millisecond
)

// awaitPlans is the plans once all schedulers are ready, and what they have made is stored and seen here.
func (c *Controller) awaitPlans(ctx context.Context, l *leading, ready func(*cell) bool) (api.Plan, error) {
	end := time.NewTimer(planWait + 4*time.Duration(c.cfg.Effort)) // search and solver, of what was under way, too
	defer end.Stop()
	look := time.NewTicker(planLook)
	defer look.Stop()
	for {
		all, made := true, make([]uint64, len(l.cells))
		if !l.call(ctx, func() {
			for i, cell := range l.cells {
				all, made[i] = all && ready(cell), cell.lead.Plan().Epoch
			}
		}) {
			return api.Plan{}, c.gone(ctx)
		}
		if all && c.shows(l.cells, made) {
			return c.Plan(ctx)
		}
		select {
		case <-look.C:
		case <-end.C:
			return api.Plan{}, api.Away(retryAway, true, "the plan is ordered, and not made and stored yet: symphony plan show tells when it is")
		case <-ctx.Done():
		case <-c.ctx.Done():
		}
	}
}

// gone is why what was ordered cannot be followed any more.
func (c *Controller) gone(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.ctx.Err() != nil:
		return api.Away(retryAway, true, "the controller is shutting down")
	}
	return c.notLeading(ctx)
}

// shows reports whether these plans, or later ones, are seen here.
func (c *Controller) shows(all cells, made []uint64) bool {
	seen := map[string]uint64{} // by scheduler
	for _, h := range c.inForce() {
		seen[h.Scheduler] = h.Epoch
	}
	for i, cell := range all {
		if seen[cell.name] < made[i] {
			return false
		}
	}
	return true
}

// Pause implements api.Plans.
func (c *Controller) Pause(ctx context.Context, why string) (api.Epochs, error) {
	return c.setEpochs(ctx, schema.Control{Name: schema.Epochs, Off: true, Why: why, Since: time.Now().UnixNano()})
}

// Resume implements api.Plans.
func (c *Controller) Resume(ctx context.Context) (api.Epochs, error) {
	return c.setEpochs(ctx, schema.Control{Name: schema.Epochs, Since: time.Now().UnixNano()})
}

func (c *Controller) setEpochs(ctx context.Context, to schema.Control) (api.Epochs, error) {
	if err := c.cfg.Store.Controls.Write(ctx, []schema.Control{to}, nil); err != nil {
		return api.Epochs{}, wrong(err, "")
	}
	seen := c.seen(ctx, func() bool { return c.view.epochs == to })
	if !seen {
		return api.Epochs{}, api.Away(retryAway, true, "it was written, and is not in force here yet: ask again")
	}
	return epochsOut(to), nil
}

func epochsOut(e schema.Control) api.Epochs {
	return api.Epochs{Paused: e.Off, Why: e.Why, Since: instant(e.Since)}
}

// State implements api.Control.
func (c *Controller) State(ctx context.Context) (api.Status, error) {
	s := api.Status{Name: c.cfg.Name, Version: c.cfg.Version, Versions: map[api.State]int{}, Schedulers: []string{}}
	state, _ := c.cfg.Store.State()
	s.Store = api.Store{Where: c.cfg.Store.Where(), Away: state.Away}
	if state.Away {
		s.Store.Since, s.Store.Error = state.Since, state.Why
	}
	if l := c.leads.Load(); l != nil {
		s.Leads = true
		s.Leader = &api.Leader{Name: c.cfg.Name, Address: c.cfg.Address}
		for _, cell := range l.cells {
			if name := cell.linked(); name != "" {
				s.Schedulers = append(s.Schedulers, name)
			}
		}
		s.Lost = c.lost()
		l.call(ctx, func() {
			for _, cell := range l.cells {
				s.GPUs, s.Backends = s.GPUs+cell.lead.GPUs(), s.Backends+cell.lead.Backends()
			}
		})
	} else if !state.Away {
		if who, err := c.cfg.Store.Leader(ctx); err == nil {
			s.Leader = &api.Leader{Name: who.Name, Address: who.Address, Since: instant(who.Since)}
		}
	}
	if all := c.inForce(); len(all) > 0 {
		plans := make([]api.Plan, len(all))
		for i := range all {
			plans[i] = planOut(all[i])
		}
		s.Plan = summed(plans, s.Lost)
	}
	for state, n := range c.view.states() {
		s.Versions[api.State(state)] = n
	}
	c.view.mu.Lock()
	defer c.view.mu.Unlock()
	s.Epochs = epochsOut(c.view.epochs)
	return s, nil
}
