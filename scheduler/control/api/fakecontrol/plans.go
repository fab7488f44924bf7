package fakecontrol

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/scheduler/control/api"
)

// Plan implements api.Control.
func (c *Control) Plan(context.Context) (api.Plan, error) {
	err := c.begin("plan")
	defer c.mu.Unlock()
	if err != nil || len(c.plans) == 0 {
		return api.Plan{}, err
	}
	return c.plans[0], nil
}

// History implements api.Control.
func (c *Control) History(context.Context) (api.History, error) {
	err := c.begin("history")
	defer c.mu.Unlock()
	h := api.History{Plans: []api.Plan{}}
	for _, p := range c.plans {
		p.SubClusters = nil
		h.Plans = append(h.Plans, p)
	}
	return h, err
}

// next is the plan that an epoch would make: all models that are served in one sub-cluster.
// Caller holds mu.
func (c *Control) next() api.Plan {
	p := api.Plan{Epoch: uint64(len(c.plans) + 1), At: time.Unix(int64(c.revision), 0).UTC(), By: "fake", Cause: "by hand", State: api.PlanInForce}
	s := api.SubCluster{Name: "s1", DeviceType: "emulated", Models: []string{}, GPUs: 2, Need: 1.5, Seated: 2}
	for name, m := range c.models {
		for _, v := range m.Versions {
			if v.State == api.Serving {
				s.Models = append(s.Models, name+"/"+v.Version)
			}
		}
	}
	p.Models, p.GPUs, p.Need, p.SubClusters = len(s.Models), s.GPUs, s.Need, []api.SubCluster{s}
	return p
}

// Diff implements api.Control.
func (c *Control) Diff(context.Context) (api.Diff, error) {
	err := c.begin("diff")
	defer c.mu.Unlock()
	if err != nil {
		return api.Diff{}, err
	}
	d := api.Diff{Moves: []api.Move{}, Resizes: []api.Resize{}, GPUs: []api.GPUMove{}, Need: 1.5, Then: 1.5}
	had := map[string]bool{}
	if len(c.plans) > 0 {
		d.Epoch = c.plans[0].Epoch
		for _, key := range c.plans[0].SubClusters[0].Models {
			had[key] = true
		}
	} else {
		d.Resizes = append(d.Resizes, api.Resize{SubCluster: "s1", DeviceType: "emulated", To: 2, Need: 1.5})
	}
	for _, key := range c.next().SubClusters[0].Models {
		if !had[key] {
			d.Moves = append(d.Moves, api.Move{Model: key, To: "s1", Loads: 1, Bytes: 1 << 20})
		}
	}
	if len(d.Moves) > 0 {
		d.GPUs = append(d.GPUs, api.GPUMove{GPU: "h/emulated/0", From: "s0", To: "s1", Loads: 1, Bytes: 3 << 20})
	}
	d.Loads, d.Bytes = len(d.Moves)+len(d.GPUs), int64(len(d.Moves))*(1<<20)+int64(len(d.GPUs))*(3<<20)
	return d, nil
}

// Apply implements api.Control.
func (c *Control) Apply(context.Context) (api.Plan, error) {
	err := c.begin("apply")
	defer c.mu.Unlock()
	if err != nil {
		return api.Plan{}, err
	}
	c.plans = append([]api.Plan{c.next()}, c.plans...)
	return c.plans[0], nil
}

// Put implements api.Control.
func (c *Control) Put(_ context.Context, spec api.PlanSpec) (api.Plan, error) {
	err := c.begin("put_plan")
	defer c.mu.Unlock()
	if err != nil {
		return api.Plan{}, err
	}
	p := api.Plan{Epoch: uint64(len(c.plans) + 1), At: time.Unix(int64(c.revision), 0).UTC(), By: "fake", Cause: "by hand", State: api.PlanInForce}
	for i, s := range spec.SubClusters {
		for j, key := range s.Models {
			name, version, _ := strings.Cut(key, "/")
			if m := c.models[name]; m == nil || m.Find(version) == nil {
				return api.Plan{}, api.Invalid(fmt.Sprintf("sub_clusters[%d].models[%d]", i, j), "model %s is not in the catalogue", key)
			}
		}
		p.Models, p.GPUs, p.Need = p.Models+len(s.Models), p.GPUs+s.GPUs, p.Need+s.Need
		p.SubClusters = append(p.SubClusters, api.SubCluster{Name: s.Name, DeviceType: s.DeviceType, Models: s.Models, GPUs: s.GPUs, Need: s.Need, Seated: s.GPUs})
	}
	c.plans = append([]api.Plan{p}, c.plans...)
	return p, nil
}

// Pause implements api.Control.
func (c *Control) Pause(_ context.Context, why string) (api.Epochs, error) {
	err := c.begin("pause")
	defer c.mu.Unlock()
	if err == nil {
		c.epochs = api.Epochs{Paused: true, Why: why, Since: time.Unix(1, 0).UTC()}
	}
	return c.epochs, err
}

// Resume implements api.Control.
func (c *Control) Resume(context.Context) (api.Epochs, error) {
	err := c.begin("resume")
	defer c.mu.Unlock()
	if err == nil {
		c.epochs = api.Epochs{}
	}
	return c.epochs, err
}

// State implements api.Control.
func (c *Control) State(context.Context) (api.Status, error) {
	_ = c.begin("state")
	defer c.mu.Unlock()
	s := api.Status{Name: "fake", Version: "test", Leads: true, Leader: &api.Leader{Name: "fake"}, Epochs: c.epochs, Schedulers: []string{"fake"},
		Store: api.Store{Where: "memory"}, Versions: map[api.State]int{}}
	if c.away != nil {
		s.Store.Away, s.Store.Error = true, c.away.Msg
	}
	if len(c.plans) > 0 {
		s.Plan = c.plans[0]
		s.Plan.SubClusters = nil
	}
	for _, m := range c.models {
		for _, v := range m.Versions {
			s.Versions[v.State]++
		}
	}
	return s, nil
}

// Advice implements api.Control.
func (c *Control) Advice(context.Context) (api.Advice, error) {
	err := c.begin("advice")
	defer c.mu.Unlock()
	if err != nil {
		return api.Advice{}, err
	}
	return api.Advice{At: time.Unix(int64(c.revision), 0).UTC(), Scaler: "kubernetes", Groups: []api.ScaleGroup{{DeviceType: "emulated", Action: api.ScaleDrain,
		Why: "2 replicas get nothing new, and go when they have ended what they have", Size: 4, Unit: 1, GPUs: 4, Want: 4, Min: 1, Max: 8, Need: 1.5, Idle: 0.6, Serving: 4,
		Dead: []string{}, Leaving: []string{"gpu-4", "gpu-5"}, Remove: []string{"gpu-5", "gpu-4"}, Try: 1,
		Parts: []api.ScalePart{{Name: "s1", GPUs: 4, Need: 1.5, Idle: 0.6, Why: "steady"}}}}}, nil
}
