package store

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/store/schema"
)

// planOf is a plan of so many models over so many sub-clusters.
func planOf(epoch uint64, clusters, models int) (schema.Plan, []schema.SubCluster) {
	var subs []schema.SubCluster
	for c := range clusters {
		s := schema.SubCluster{Epoch: epoch, Name: fmt.Sprintf("s%03d", c), DeviceType: "cpu", GPUs: 16, Need: 12.5}
		for m := c; m < models; m += clusters {
			s.Models = append(s.Models, fmt.Sprintf("a-model-with-a-name-of-some-length-%05d/1", m))
		}
		subs = append(subs, s)
	}
	return schema.Plan{Epoch: epoch, By: "me", Cause: "interval", State: schema.Proposed, Models: models}, subs
}

// A plan of the largest size is kept whole, an epoch is written once, what a writer that died
// left is overwritten, and the oldest are forgotten with their parts.
func TestPlans(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	if _, _, err := s.LatestPlan(ctx); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	lead := <-campaign(t, s, "me")
	if err := s.parts.Write(ctx, []schema.SubCluster{{Epoch: 1, Name: "of one that died", DeviceType: "cpu"}}, nil); err != nil {
		t.Fatal(err)
	}
	head, subs := planOf(1, schema.SubClustersMax, schema.ModelsMax)
	if err := s.PutPlan(ctx, head, subs, lead.Guard()); err != nil {
		t.Fatal(err)
	}
	e, back, err := s.Plan(ctx, 1)
	if err != nil || !reflect.DeepEqual(back, subs) || e.Value.SubClusters != len(subs) {
		t.Fatalf("%+v with %d sub-clusters, %v", e, len(back), err)
	}
	var conflict *ConflictError
	if err := s.PutPlan(ctx, head, subs, lead.Guard()); !errors.As(err, &conflict) {
		t.Errorf("twice: %v", err)
	}
	e.Value.State = schema.InForce
	if _, err := s.Plans.Update(ctx, e.Value, e.Revision, lead.Guard()); err != nil {
		t.Error(err)
	}
	last := uint64(schema.PlansKept + 5)
	for epoch := uint64(2); epoch <= last; epoch++ {
		head, subs := planOf(epoch, 2, 4)
		if err := s.PutPlan(ctx, head, subs, lead.Guard()); err != nil {
			t.Fatal(err)
		}
	}
	if all, _, err := s.Plans.All(ctx); err != nil || len(all) != schema.PlansKept || all[0].Value.Epoch != 6 {
		t.Errorf("%d plans, %v", len(all), err)
	}
	if n, err := s.parts.Count(ctx); err != nil || n != 2*schema.PlansKept {
		t.Errorf("%d parts, %v", n, err)
	}
	if _, _, err := s.Plan(ctx, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a forgotten one: %v", err)
	}
	if e, _, err := s.LatestPlan(ctx); err != nil || e.Value.Epoch != last {
		t.Errorf("the latest is %d, %v", e.Value.Epoch, err)
	}
	lead.Resign()
	head, subs = planOf(last+1, 2, 4)
	if err := s.PutPlan(ctx, head, subs, lead.Guard()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a deposed leader planned: %v", err)
	}
}

// Each scheduler has plans of its own: the newest of each is kept and found, whatever the others
// plan meanwhile.
func TestPlansOfSchedulers(t *testing.T) {
	s, _ := open(t, Config{Ephemeral: true})
	ctx := limited(t)
	put := func(epoch uint64, scheduler string) {
		t.Helper()
		head, subs := planOf(epoch, 1, 1)
		head.Scheduler, subs[0].Scheduler = scheduler, scheduler
		if err := s.PutPlan(ctx, head, subs); err != nil {
			t.Fatal(err)
		}
	}
	put(1, "")
	put(2, "tcp:a:1")
	put(3, "tcp:b:1")
	put(4, "tcp:b:1")
	for epoch := uint64(5); epoch < 5+schema.PlansKept; epoch++ {
		put(epoch, "tcp:c:1")
	}
	for _, c := range []struct {
		of   []string
		want uint64
	}{{nil, 4 + schema.PlansKept}, {[]string{""}, 1}, {[]string{"tcp:a:1", ""}, 2}, {[]string{"tcp:b:1"}, 4}, {[]string{"tcp:c:1"}, 4 + schema.PlansKept}} {
		e, parts, err := s.LatestPlan(ctx, c.of...)
		if err != nil || e.Value.Epoch != c.want || len(parts) != 1 || parts[0].Scheduler != e.Value.Scheduler {
			t.Errorf("of %q: %+v with %+v, %v; want plan %d", c.of, e.Value, parts, err, c.want)
		}
	}
	if _, _, err := s.LatestPlan(ctx, "tcp:d:1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a scheduler without one: %v", err)
	}
	if all, _, err := s.Plans.All(ctx); err != nil || len(all) != schema.PlansKept+3 { // and not the third
		t.Errorf("%d plans, %v", len(all), err)
	}
}
