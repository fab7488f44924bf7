package controlcmd

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

// rolling is a control plane whose plans go through states, one for each look.
type rolling struct {
	*fakecontrol.Control
	looks []api.Plan
	at    int
}

func (r *rolling) Plan(context.Context) (api.Plan, error) {
	r.at = min(r.at+1, len(r.looks)-1)
	return r.looks[r.at], nil
}

func (r *rolling) Apply(context.Context) (api.Plan, error) { return r.looks[0], nil }

func (r *rolling) Put(context.Context, api.PlanSpec) (api.Plan, error) { return r.looks[0], nil }

// plansOf is the sum of plans at a and b, and what is not linked.
func plansOf(a, b api.Plan, lost ...string) api.Plan {
	a.Scheduler, b.Scheduler = "a", "b"
	return api.Plan{Epoch: max(a.Epoch, b.Epoch), State: b.State, Plans: []api.Plan{b, a}, Lost: lost}
}

// Each scheduler's roll-out is waited for and judged by itself; one that is lost is not waited for, and said.
func TestWaitForSeveral(t *testing.T) {
	at := func(epoch uint64, state string) api.Plan {
		return api.Plan{Epoch: epoch, State: state, Reason: "why not"}
	}
	part := func(scheduler string) string {
		return "sub_clusters: [{name: x, device_type: t, models: [], gpus: 1, scheduler: " + scheduler + "}]"
	}
	for _, c := range []struct {
		what, file string
		looks      []api.Plan
		out, note  string
		err        string // "": none
	}{
		{"b is overtaken, a fails later", "", []api.Plan{plansOf(at(7, api.PlanRollsOut), at(8, api.PlanRollsOut)), plansOf(at(7, api.PlanRollsOut), at(9, api.PlanInForce)), plansOf(at(7, api.PlanFailed), at(9, api.PlanInForce))},
			"a: plan 7, failed: why not", "", "the roll-out of plan 7 at a failed: why not"},
		{"b is in force, a later", "", []api.Plan{plansOf(at(7, api.PlanRollsOut), at(8, api.PlanInForce)), plansOf(at(7, api.PlanRollsOut), at(8, api.PlanInForce)), plansOf(at(7, api.PlanInForce), at(8, api.PlanInForce))},
			"a: plan 7, in-force", "", ""},
		{"a is lost within it", "", []api.Plan{plansOf(at(7, api.PlanRollsOut), at(8, api.PlanRollsOut)), plansOf(at(7, api.PlanRollsOut), at(8, api.PlanInForce), "a")},
			"a (not linked): plan 7, rolls-out", "", "plan 7 at a has not ended: that scheduler is not linked"},
		{"a was lost before", "", []api.Plan{plansOf(at(7, api.PlanRollsOut), at(8, api.PlanRollsOut), "a"), plansOf(at(7, api.PlanRollsOut), at(8, api.PlanInForce), "a")},
			"b: plan 8, in-force", "not linked, and not waited for: a", ""},
		{"a plan of people's own for b", part("b"), []api.Plan{plansOf(at(7, api.PlanFailed), at(8, api.PlanRollsOut)), plansOf(at(7, api.PlanFailed), at(8, api.PlanInForce))},
			"b: plan 8, in-force", "", ""},
	} {
		r := &rolling{Control: &fakecontrol.Control{}, looks: c.looks}
		s := httptest.NewServer(api.New(r, api.Options{Token: "secret"}))
		t.Cleanup(s.Close)
		w := &world{T: t, Control: r.Control, url: s.URL, ctx: t.Context(), in: c.file}
		args := []string{"plan", "apply", "--wait"}
		if c.file != "" {
			args = append(args, "--file", "-")
		}
		out, note, err := w.run(args...)
		if !strings.Contains(out, c.out) || !strings.Contains(note, c.note) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v\n%s%s", c.what, err, out, note)
		}
	}
}

// Who does not wait is told as well, where the plan has failed before there is an answer; that it rolls out is none of that.
func TestApplyThatFailsAtOnce(t *testing.T) {
	failed, under := api.Plan{Epoch: 6, State: api.PlanFailed, Reason: "no GPUs"}, api.Plan{Epoch: 6, State: api.PlanRollsOut}
	for _, c := range []struct {
		what, file string
		plan       api.Plan
		err        string // "": none
	}{
		{"one", "", failed, "the roll-out of plan 6 failed: no GPUs"},
		{"it rolls out", "", under, ""},
		{"one of two", "", plansOf(failed, under), "the roll-out of plan 6 at a failed"},
		{"not the one that the file is for", "sub_clusters: [{name: x, device_type: t, models: [], gpus: 1, scheduler: b}]", plansOf(failed, under), ""},
	} {
		r := &rolling{Control: &fakecontrol.Control{}, looks: []api.Plan{c.plan}}
		s := httptest.NewServer(api.New(r, api.Options{Token: "secret"}))
		t.Cleanup(s.Close)
		w := &world{T: t, Control: r.Control, url: s.URL, ctx: t.Context(), in: c.file}
		args := []string{"plan", "apply"}
		if c.file != "" {
			args = append(args, "--file", "-")
		}
		out, _, err := w.run(args...)
		if !strings.Contains(out, "plan 6, ") || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v\n%s", c.what, err, out)
		}
	}
}
