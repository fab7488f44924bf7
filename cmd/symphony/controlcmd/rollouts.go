package controlcmd

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// rollOuts are what was ordered: a plan, or where there are several schedulers one of each. One of them
// that is overtaken, or ends, says nothing of the others.
type rollOuts struct {
	all  []api.Plan // as they were seen last
	lost []string   // schedulers that are not linked now
}

// ordered are the roll-outs of a plan as it was when it was ordered; of: schedulers that it was for, nil:
// all. What a scheduler that is not linked once began is none of it.
func ordered(p *api.Plan, of []string) *rollOuts {
	r := &rollOuts{lost: p.Lost}
	for _, one := range each(p) {
		if len(p.Plans) > 0 && (of != nil && !slices.Contains(of, one.Scheduler) || slices.Contains(p.Lost, one.Scheduler)) {
			continue
		}
		r.all = append(r.all, one)
	}
	return r
}

// each is the plans of all schedulers.
func each(p *api.Plan) []api.Plan {
	if len(p.Plans) > 0 {
		return p.Plans
	}
	return []api.Plan{*p}
}

// under reports whether a roll-out is under way.
func under(p *api.Plan) bool { return p.State == api.PlanProposed || p.State == api.PlanRollsOut }

// see takes how all stands now.
func (r *rollOuts) see(p *api.Plan) {
	r.lost = p.Lost
	now := each(p)
	for i := range r.all {
		old := &r.all[i]
		if !under(old) {
			continue
		}
		k := slices.IndexFunc(now, func(n api.Plan) bool { return n.Scheduler == old.Scheduler && n.Epoch == old.Epoch })
		if k < 0 {
			old.State = api.PlanOvertaken
		} else {
			*old = now[k]
		}
	}
}

// goOn reports whether any is under way that is heard of.
func (r *rollOuts) goOn() bool {
	return slices.ContainsFunc(r.all, func(p api.Plan) bool { return under(&p) && !slices.Contains(r.lost, p.Scheduler) })
}

// steps are those of all.
func (r *rollOuts) steps() (done, all int) {
	for i := range r.all {
		done, all = done+r.all[i].StepsDone, all+r.all[i].Steps
	}
	return done, all
}

// failed says which have failed.
func (r *rollOuts) failed() error {
	return r.errs(func(p *api.Plan) bool { return p.State == api.PlanFailed }, func(name, why string) error {
		return fmt.Errorf("the roll-out of %s failed: %s", name, why)
	})
}

// err says which have failed, or cannot be followed.
func (r *rollOuts) err() error {
	return errors.Join(r.failed(), r.errs(under, func(name, _ string) error {
		return fmt.Errorf("the roll-out of %s has not ended: that scheduler is not linked any more; it goes on when it is back (symphony plan show)", name)
	}))
}

// errs are those of some of them.
func (r *rollOuts) errs(of func(*api.Plan) bool, say func(name, why string) error) error {
	var errs []error
	for i := range r.all {
		if p := &r.all[i]; of(p) {
			errs = append(errs, say(atScheduler(fmt.Sprintf("plan %d", p.Epoch), p.Scheduler), p.Reason))
		}
	}
	return errors.Join(errs...)
}

// pollEvery is how often a roll-out that is waited for is looked at.
const pollEvery = 300 * time.Millisecond

// await waits until each roll-out has ended, or another plan has overtaken it, and returns the plan as it
// is then. Schedulers that are lost are not waited for.
func (c planApplyCmd) await(s *session, p api.Plan, of []string) (api.Plan, error) {
	ctx, cancel := s.timed(c.Timeout)
	defer cancel()
	line := progress{s: s, what: "steps of the roll-out"}
	defer line.end()
	r := ordered(&p, of)
	for r.goOn() {
		line.count(r.steps())
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return p, s.unfinished(ctx.Err(), c.Waiting, "the roll-out goes on: symphony plan show tells how far it is")
		}
		next, err := s.Plan(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !isLost(err):
			return p, err
		case err == nil:
			p = next
			r.see(&p)
		}
	}
	return p, r.err()
}
