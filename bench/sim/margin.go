package sim

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/overrun"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// margin is taken off the deadlines of a model's requests as the scheduler sees
// them: what the live engine does (engine.modelLoop), for any scheduler, learnt
// by the same code from the same reports. The fixed part of the engine's margin
// is for what is not simulated.
type margin struct {
	learnt *overrun.Overrun
	now    mono.Dur
}

// marginPart is the greatest part of the SLO that a margin takes, as in the
// engine.
const marginPart = 4

func newMargins(models []Model) []margin {
	margins := make([]margin, len(models))
	for i := range margins {
		margins[i].learnt = overrun.New(models[i].SLO / marginPart)
	}
	return margins
}

// tighten takes the margin off a request's deadline.
func (d *driver) tighten(id wire.ModelID, r *batching.Request) {
	if d.margins != nil {
		r.Deadline = r.Deadline.Add(-d.margins[id].now)
	}
}

// overran learns from a batch whose report has come.
func (d *driver) overran(r *run) {
	if d.margins == nil {
		return
	}
	if m := &d.margins[r.Model]; m.learnt.Add(d.now, r.End.Sub(r.until)) {
		m.now = m.learnt.Bound()
	}
}

// woke notes that a timer fires, and ordered that an order leaves: how late, if
// the scheduler tells when it was due.
func (d *driver) woke(due mono.Time) { d.latest = max(d.latest, d.now.Sub(due)) }
func (d *driver) ordered(k *policy.Dispatch) {
	if k.Due > 0 {
		d.latest = max(d.latest, d.now.Sub(k.Due))
	}
}

// turned learns from the instant, as a loop of the live engine from its turn, and
// tells the scheduler what matters.
func (d *driver) turned() {
	if d.margins == nil {
		return
	}
	changed := d.late.Add(d.now, d.latest)
	d.latest = 0
	if s, ok := d.sched.(policy.Measured); ok && changed {
		delay := d.cfg.Network.Bound
		delay.Late = d.late.Bound()
		s.SetDelay(d.now, delay, &d.out)
		d.apply()
	}
}
