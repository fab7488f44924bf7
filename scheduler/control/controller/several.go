package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/control/spread"
	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
	"github.com/symphony-serving/symphony/transport/mono"
)

// inForce are the last plans of the schedulers that are configured, the newest first.
func (c *Controller) inForce() (out []schema.Plan) {
	all := c.view.history()
	for i := range c.cfg.Schedulers {
		names := c.cfg.called(i)
		if at := slices.IndexFunc(all, func(h schema.Plan) bool { return slices.Contains(names, h.Scheduler) }); at >= 0 {
			h := all[at]
			h.Scheduler = c.cfg.nameOf(i)
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b schema.Plan) int { return cmp.Compare(b.Epoch, a.Epoch) })
	return out
}

// lost are the schedulers that this controller, where it leads, has no link to; none where there is
// one only.
func (c *Controller) lost() (out []string) {
	l := c.leads.Load()
	if l == nil {
		return nil
	}
	for _, cell := range l.cells {
		if cell.name != "" && cell.linked() == "" {
			out = append(out, cell.name)
		}
	}
	return out
}

// summed is one plan of the last ones of all schedulers, the newest first: it is in force when all
// are, and failed when one is. The roll-outs of schedulers that are lost do not go on: their states
// count only where there are no others.
func summed(plans []api.Plan, lost []string) api.Plan {
	if len(plans) == 1 && plans[0].Scheduler == "" {
		return plans[0]
	}
	sum := plans[0]
	sum.Scheduler, sum.Models, sum.GPUs, sum.Need, sum.Moves, sum.Steps, sum.StepsDone, sum.Reason, sum.SubClusters = "", 0, 0, 0, 0, 0, 0, "", nil
	away := func(p api.Plan) bool { return slices.Contains(lost, p.Scheduler) }
	if first := slices.IndexFunc(plans, func(p api.Plan) bool { return !away(p) }); first >= 0 {
		sum.State = plans[first].State
	} else {
		away = func(api.Plan) bool { return false }
	}
	sum.Lost = lost
	for _, p := range plans {
		sum.Models, sum.GPUs, sum.Need, sum.Moves, sum.Steps, sum.StepsDone = sum.Models+p.Models, sum.GPUs+p.GPUs, sum.Need+p.Need, sum.Moves+p.Moves, sum.Steps+p.Steps, sum.StepsDone+p.StepsDone
		if !away(p) && urgency(p.State) > urgency(sum.State) {
			sum.State = p.State
		}
		if p.Ended.After(sum.Ended) {
			sum.Ended = p.Ended
		}
		if p.Reason != "" {
			sum.Reason = strings.TrimPrefix(sum.Reason+"; "+p.Scheduler+": "+p.Reason, "; ")
		}
		sum.SubClusters = append(sum.SubClusters, p.SubClusters...)
		p.SubClusters = nil
		sum.Plans = append(sum.Plans, p)
	}
	slices.SortStableFunc(sum.SubClusters, func(a, b api.SubCluster) int { return strings.Compare(a.Scheduler, b.Scheduler) })
	return sum
}

// urgency orders states of plans: which one is that of all.
func urgency(state string) int {
	return slices.Index([]string{api.PlanInForce, api.PlanOvertaken, api.PlanFailed, api.PlanProposed, api.PlanRollsOut}, state)
}

// put has a plan of people's own rolled out, by each scheduler its part. One that is not named
// goes on as it does.
func (l *leading) put(now mono.Time, spec api.PlanSpec) error {
	parts, err := l.divide(spec)
	if err != nil {
		return err
	}
	home := map[string]int{} // by model's name
	for i := range parts {
		for _, s := range parts[i].SubClusters {
			for _, key := range s.Models {
				name := namesOfKey(key)
				if at, there := home[name]; there && at != i {
					return api.Invalid("sub_clusters", "versions of model %s are at %s and at %s: all of a model are at one scheduler", name, l.cells[at].name, l.cells[i].name)
				}
				home[name] = i
			}
		}
	}
	for i := range parts {
		if len(parts[i].SubClusters) > 0 && !l.cells[i].lead.Whole() {
			return api.Away(retryAway, false, "%s is not connected: nothing is known of its GPUs", cmp.Or(l.cells[i].name, "the scheduler"))
		}
	}
	if err := l.remain(parts, home); err != nil {
		return err
	}
	if err := l.mayApply(parts, home); err != nil {
		return err
	}
	if len(l.cells) > 1 {
		l.assign(now, home)
	}
	for i, c := range l.cells {
		if len(parts[i].SubClusters) == 0 {
			continue
		}
		l.cells.counted()
		if err := c.lead.Apply(now, parts[i], &c.effects); err != nil {
			return err
		}
		l.carryOut(c)
	}
	return nil
}

// divide is a plan's parts by scheduler.
func (l *leading) divide(spec api.PlanSpec) ([]plan.Plan, error) {
	parts := make([]plan.Plan, len(l.cells))
	for i, s := range spec.SubClusters {
		c := l.cells.find(s.Scheduler)
		switch {
		case len(l.cells) == 1 && (c == nil || s.Scheduler == ""): // of when there were several
			c = l.cells[0]
		case c == nil && s.Scheduler == "":
			return nil, api.Invalid(at(i, "scheduler"), "is missing, and there are several: say whose GPUs sub-cluster %s has, one of %s", s.Name, l.cells.names())
		case c == nil:
			return nil, api.Invalid(at(i, "scheduler"), "%q is none of %s", s.Scheduler, l.cells.names())
		}
		for j, key := range s.Models {
			wished := slices.ContainsFunc(lead.Wishes(l.wanted[namesOfKey(key)]), func(w lead.Wish) bool { return w.Key == key })
			if len(l.cells) > 1 && !wished && !c.lead.Local(key) {
				return nil, api.Invalid(at(i, fmt.Sprintf("models[%d]", j)), "model %s is not in the catalogue, or not to be served: add it or load it first", key)
			}
		}
		models := slices.Sorted(slices.Values(s.Models))
		parts[c.number].SubClusters = append(parts[c.number].SubClusters, plan.SubCluster{Name: s.Name, DeviceType: s.DeviceType, Models: models, GPUs: s.GPUs, Need: s.Need})
	}
	return parts, nil
}

// mayApply is why one of the parts would be refused. It is asked of all before anything moves or is
// rolled out: a plan that is wrong changes nothing.
func (l *leading) mayApply(parts []plan.Plan, home map[string]int) error {
	for i, c := range l.cells {
		if len(parts[i].SubClusters) == 0 {
			continue
		}
		given := map[string]schema.Model{}
		for name, to := range home {
			doc, wanted := l.wanted[name]
			if at, moves := l.spread.Home(name); wanted && to == i && at != i && moves != i {
				given[name] = doc
			}
		}
		if err := c.lead.MayApply(&parts[i], given); err != nil {
			if c.name != "" {
				err = fmt.Errorf("%s: %w", c.name, err)
			}
			return err
		}
	}
	return nil
}

// assign has models go where the plan has them.
func (l *leading) assign(now mono.Time, home map[string]int) {
	for _, name := range slices.Sorted(maps.Keys(home)) {
		l.spread.Assign(now, name, home[name], l.cells, &l.grants)
	}
	l.grant(now)
}

// stays is the scheduler that a model is still at when people's plan has it go to another one, as
// spread.Assign makes it: where it was, or where it was about to go if only that one serves it.
func (l *leading) stays(name string, home int) int {
	at, to := l.spread.Home(name)
	switch {
	case at == spread.Nowhere:
		return home
	case to != spread.Nowhere && to != home && !l.serves(at, name) && l.serves(to, name):
		return to
	}
	return at
}

// serves reports whether a scheduler is known to serve a version of a model that is wanted.
func (l *leading) serves(i int, name string) bool {
	return l.cells.Told(i) && slices.ContainsFunc(lead.Wishes(l.wanted[name]), func(w lead.Wish) bool { return l.cells.Routed(i, w.Key) })
}

// remain keeps what moves to another scheduler in the plan of the one that serves it, until that
// one does: then it leaves this plan by itself.
func (l *leading) remain(parts []plan.Plan, home map[string]int) error {
	for i, c := range l.cells {
		if len(parts[i].SubClusters) == 0 {
			continue
		}
		for _, key := range c.lead.Routed() {
			name := namesOfKey(key)
			to, named := home[name]
			if !named || to == i || l.stays(name, to) != i {
				continue
			}
			t, _, _ := c.lead.Load(key)
			k := slices.IndexFunc(parts[i].SubClusters, func(s plan.SubCluster) bool { return s.DeviceType == t && s.GPUs > 0 })
			if k < 0 {
				return api.Invalid("sub_clusters", "model %s moves from %s to %s, and is served where it is until then: leave a sub-cluster of device type %s with GPUs at %s", name, c.name, l.cells[to].name, t, c.name)
			}
			if now, there := l.atOf(&parts[i], c, key); there {
				k = now
			}
			s := &parts[i].SubClusters[k]
			s.Models = append(s.Models, key)
			slices.Sort(s.Models)
		}
	}
	return nil
}

// atOf is the sub-cluster of a plan that a model is in now.
func (l *leading) atOf(p *plan.Plan, c *cell, key string) (int, bool) {
	in := c.lead.Where(key)
	k := slices.IndexFunc(p.SubClusters, func(s plan.SubCluster) bool { return s.Name == in && s.GPUs > 0 })
	return k, k >= 0
}

// names are the schedulers', for people.
func (all cells) names() string {
	var out []string
	for _, c := range all {
		out = append(out, c.name)
	}
	return strings.Join(out, ", ")
}

// at is the name of a part's field.
func at(i int, field string) string { return fmt.Sprintf("sub_clusters[%d].%s", i, field) }
