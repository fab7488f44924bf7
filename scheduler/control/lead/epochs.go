package lead

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Needs and time call for plans by plan.Epochs; the catalogue and GPUs do by themselves (want),
// because people wait for those.

// lookEvery is between two looks at the needs of sub-clusters.
const lookEvery = mono.Second

// regular asks whether needs or time call for a plan.
func (l *Lead) regular(now mono.Time) {
	if now < l.nextLook() {
		return
	}
	l.looked = now
	if why := l.epochs.Decide(now, plan.Signals{Needs: l.needs()}); why != plan.No {
		l.want(now, why.String())
	}
}

// nextLook is when regular has something to ask; Never, where people have said so, or a plan is
// due anyway. Where no GPU could move, needs are of no interest.
func (l *Lead) nextLook() mono.Time {
	switch {
	case l.paused || l.byHand || l.due != mono.Never || l.task != nil || l.plan.Epoch == 0:
		return mono.Never
	case !l.isDivided():
		return l.planned.Add(l.cfg.Interval)
	}
	return l.looked.Add(lookEvery)
}

// isDivided reports whether the plan has sub-clusters between which models or GPUs could move.
func (l *Lead) isDivided() bool {
	return slices.ContainsFunc(l.plan.SubClusters, func(s plan.SubCluster) bool { return s.Name != plan.Unplanned(s.DeviceType) })
}

// needs are those of the plan's sub-clusters, now and then.
func (l *Lead) needs() (out []plan.NeedOf) {
	for _, s := range l.plan.SubClusters {
		now := l.world.subs[s.Name]
		out = append(out, plan.NeedOf{SubCluster: s.Name, GPUs: now.GPUs, Need: now.Need, Planned: s.Need})
	}
	return out
}

// worth reports whether a plan is to be rolled out: one that only time or needs called for must
// save GPUs where it moves models.
func (l *Lead) worth(d *draft, p *plan.Plan) bool {
	if l.cause != plan.Drift.String() && l.cause != plan.Regular.String() {
		return true
	}
	before, after := 0.0, 0.0
	for i := range d.parts {
		q, r := d.parts[i].Problem, d.parts[i].Result
		if r == nil {
			continue
		}
		if slices.ContainsFunc(q.From, func(j int) bool { return j < 0 || j >= q.SubClusters }) {
			return true // something must move
		}
		before, after = before+q.Value(q.Loads(q.From)), after+r.Value
	}
	return l.epochs.Worth(plan.Regular, before, after, l.moves(p))
}
