package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/lead"
)

// set changes what a scheduler does.
func (s *fakeScheduler) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// of is a scheduler's plan.
func of(p *api.Plan, scheduler string) (out api.Plan) {
	if i := slices.IndexFunc(p.Plans, func(p api.Plan) bool { return p.Scheduler == scheduler }); i >= 0 {
		return p.Plans[i]
	}
	return out
}

// A scheduler that dies within a roll-out is no part of the state of all; apply ends people's plan there,
// too, once it is back, and is not held up by it.
func TestLostWithinARollOut(t *testing.T) {
	w := newTwo(t)
	w.add(4)
	a := w.a.served()
	w.a.set(func() { w.a.mute = true })
	p, err := w.c.Put(t.Context(), api.PlanSpec{SubClusters: []api.PlanPart{{Name: "y", DeviceType: "t", GPUs: 2, Models: a, Scheduler: "inproc:a"}}})
	if err != nil || p.State != api.PlanRollsOut || of(&p, "inproc:a").Cause != lead.ByHand {
		t.Fatalf("%+v, %v", p, err)
	}
	w.a.down()
	w.await("the others' state is told", func() string {
		p, err := w.c.Plan(t.Context())
		if err != nil || p.State != api.PlanInForce || !slices.Equal(p.Lost, []string{"inproc:a"}) || of(&p, "inproc:a").State != api.PlanRollsOut {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		return ""
	})
	w.await("and in the state of all", func() string {
		st, err := w.c.State(t.Context())
		if err != nil || st.Plan.State != api.PlanInForce || !slices.Equal(st.Lost, st.Plan.Lost) {
			return fmt.Sprintf("%+v, %v", st, err)
		}
		return ""
	})
	if p, err = w.c.Apply(t.Context()); err != nil || len(p.Lost) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	w.await("the other one's plan is in force", func() string { // it may have made a new one meanwhile
		if p, err := w.c.Plan(t.Context()); err != nil || p.State != api.PlanInForce || len(p.Lost) != 1 {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		return ""
	})
	w.a.set(func() { w.a.mute = false })
	w.a.up()
	w.await("a has a plan of the controller's own", func() string {
		p, err := w.c.Plan(t.Context())
		if a := of(&p, "inproc:a"); err != nil || len(p.Lost) > 0 || a.Cause == lead.ByHand || a.State != api.PlanInForce {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		return ""
	})
	if got := w.a.served(); !slices.Equal(got, a) || len(w.a.gone()) > 0 {
		t.Errorf("a serves %v, was %v; removed: %v", got, a, w.a.gone())
	}
	w.stale()
}

// The plan of when there was one scheduler is shown as the first one's, sub-clusters and all: what is shown
// can be applied.
func TestPlanOfOneShownByTwo(t *testing.T) {
	w := newTwo(t)
	w.c.Close()
	w.start("inproc:a")
	w.add(2)
	w.c.Close()
	w.a.down() // else it soon has a plan of its own
	w.start("inproc:a", "inproc:b")
	w.await("it names a", func() string {
		p, err := w.c.Plan(t.Context())
		if err != nil || len(p.SubClusters) == 0 || p.SubClusters[0].Scheduler != "inproc:a" {
			return fmt.Sprintf("%+v, %v", p, err)
		}
		return ""
	})
}
