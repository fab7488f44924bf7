package controller

import (
	"context"
	"errors"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
)

// Diff implements api.Plans.
func (c *Controller) Diff(ctx context.Context) (api.Diff, error) {
	none := api.Diff{Moves: []api.Move{}, Resizes: []api.Resize{}, GPUs: []api.GPUMove{}}
	var last, made plan.Plan
	var now plan.Facts
	err := c.previewed(ctx, func(l *leading, p plan.Plan) { last, made, now = l.lead.Plan(), p, l.lead.World() })
	if errors.Is(err, &api.Error{Kind: api.KindAway}) { // nothing is known of what there is: no plan would be made
		none.Reason = err.Error()
		return none, nil
	}
	if err != nil {
		return none, err
	}
	return compared(&last, &made, now, c.cfg.Plan.Limits)
}

// compared is what a plan would change. Not in the leader's loop: it takes a while.
func compared(last, made *plan.Plan, now plan.Facts, limits plan.Limits) (api.Diff, error) {
	d := api.Diff{Moves: []api.Move{}, Resizes: []api.Resize{}, GPUs: []api.GPUMove{}}
	changes, err := plan.Compare(*made, now, limits)
	if err != nil {
		return d, api.Away(retryAway, false, "what is known of the cluster does not go together yet: %v", err)
	}
	resized(&d, last, made)
	moved(&d, &changes)
	return d, nil
}

// resized tells sub-clusters whose numbers of GPUs change, and what both plans need.
func resized(d *api.Diff, last, made *plan.Plan) {
	d.Epoch = last.Epoch
	for _, s := range made.SubClusters {
		d.Then += s.Need
		r := api.Resize{SubCluster: s.Name, DeviceType: s.DeviceType, To: s.GPUs, Need: s.Need}
		if old := last.Find(s.Name); old != nil {
			r.From = old.GPUs
		}
		if r.From != r.To {
			d.Resizes = append(d.Resizes, r)
		}
	}
	for _, s := range last.SubClusters {
		d.Need += s.Need
		if made.Find(s.Name) == nil {
			d.Resizes = append(d.Resizes, api.Resize{SubCluster: s.Name, DeviceType: s.DeviceType, From: s.GPUs})
		}
	}
}

// moved tells models and GPUs that move, and what is loaded for it.
func moved(d *api.Diff, changes *plan.Diff) {
	d.Stay, d.Loads, d.Bytes = changes.Stay, changes.Loads, changes.Bytes
	for _, m := range changes.Models {
		d.Moves = append(d.Moves, api.Move{Model: m.Key, From: m.From, To: m.To, Loads: m.Loads, Bytes: m.Bytes})
	}
	for _, g := range changes.GPUs {
		d.GPUs = append(d.GPUs, api.GPUMove{GPU: g.Name, From: g.From, To: g.To, Loads: g.Loads, Bytes: g.Bytes})
	}
}
