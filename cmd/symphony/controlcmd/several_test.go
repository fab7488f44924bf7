package controlcmd

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/api/fakecontrol"
)

// several is a control plane over two schedulers, one of them away.
type several struct {
	*fakecontrol.Control
	put api.PlanSpec
}

func (s *several) plans() []api.Plan {
	return []api.Plan{{Epoch: 8, State: api.PlanRollsOut, Steps: 5, StepsDone: 2, Models: 1, GPUs: 2, By: "c", Cause: "catalogue", Scheduler: "tcp:b:1"},
		{Epoch: 7, State: api.PlanFailed, Reason: "a GPU went", Models: 2, GPUs: 2, By: "c", Cause: "catalogue", Scheduler: "tcp:a:1"}}
}

func (s *several) Plan(context.Context) (api.Plan, error) {
	return api.Plan{Epoch: 8, State: api.PlanRollsOut, Models: 3, GPUs: 4, Plans: s.plans(), SubClusters: []api.SubCluster{
		{Name: "/t", DeviceType: "t", Scheduler: "tcp:a:1", Models: []string{"k/1", "l/1"}, GPUs: 2},
		{Name: "/t", DeviceType: "t", Scheduler: "tcp:b:1", Models: []string{"m/1"}, GPUs: 2}}}, nil
}

func (s *several) History(context.Context) (api.History, error) {
	return api.History{Plans: append(s.plans(), api.Plan{Epoch: 6, State: api.PlanInForce})}, nil
}

func (s *several) Diff(context.Context) (api.Diff, error) {
	return api.Diff{Epoch: 8, Moves: []api.Move{{Model: "m/1", From: "x", Scheduler: "tcp:b:1"}}, Resizes: []api.Resize{{SubCluster: "x", DeviceType: "t", From: 1, To: 2, Scheduler: "tcp:b:1"}}, Away: []string{"tcp:a:1"}}, nil
}

func (s *several) State(ctx context.Context) (api.Status, error) {
	st, err := s.Control.State(ctx)
	st.Schedulers, st.Lost = []string{"tcp:b:1"}, []string{"tcp:a:1"}
	return st, err
}

func (s *several) Put(ctx context.Context, spec api.PlanSpec) (api.Plan, error) {
	s.put = spec
	return s.Plan(ctx)
}

// Where there are several schedulers, each line says whose it is; a plan that is shown can be
// applied as it is.
func TestSeveralSchedulers(t *testing.T) {
	c := &several{Control: &fakecontrol.Control{}}
	s := httptest.NewServer(api.New(c, api.Options{Token: "secret"}))
	t.Cleanup(s.Close)
	w := &world{T: t, Control: c.Control, url: s.URL, ctx: t.Context()}
	for _, x := range []struct {
		args []string
		want []string
	}{
		{[]string{"plan", "show", "--models"}, []string{"1 scheduler, ", "not linked: tcp:a:1;", "tcp:b:1: plan 8, rolls-out (2 of 5 steps)", "tcp:a:1: plan 7, failed: a GPU went", "/t at tcp:a:1: k/1 l/1", "/t at tcp:b:1: m/1"}},
		{[]string{"plan", "history"}, []string{"SCHEDULER  EPOCH", "tcp:b:1    8", "tcp:a:1    7", "-          6"}},
		{[]string{"plan", "diff"}, []string{"not linked, and not among it: tcp:a:1", "x at tcp:b:1 (t)", "x at tcp:b:1 -> nowhere"}},
	} {
		out, _, err := w.run(x.args...)
		for _, want := range x.want {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s%v", x.args, want, out, err)
			}
		}
	}
	out, _, err := w.run("plan", "show", "--json")
	if err != nil {
		t.Fatal(err)
	}
	w.in = out
	if _, _, err := w.run("plan", "apply", "--file", "-"); err == nil || err.Error() != "the roll-out of plan 7 at tcp:a:1 failed: a GPU went" {
		t.Fatal(err)
	}
	if p := c.put.SubClusters; len(p) != 2 || p[0].Scheduler != "tcp:a:1" || p[1].Scheduler != "tcp:b:1" || p[0].Name != "/t" || p[1].Models[0] != "m/1" {
		t.Errorf("applied: %+v", p)
	}
	w.in = `{"sub_clusters":[{"name":"x","device_type":"t","models":[],"gpus":1,"scheduler":"tcp:a:1"},{"name":"x","device_type":"t","models":[],"gpus":1,"scheduler":"tcp:a:1"}]}`
	if _, _, err := w.run("plan", "apply", "--file", "-"); err == nil || !strings.Contains(err.Error(), "there twice") {
		t.Errorf("%v", err)
	}
	w.in = strings.ReplaceAll(w.in, `"scheduler":"tcp:a:1"`, `"scheduler":"\u0007"`)
	if _, _, err := w.run("plan", "apply", "--file", "-"); err == nil || !strings.Contains(err.Error(), "is no scheduler") {
		t.Errorf("%v", err)
	}
}
