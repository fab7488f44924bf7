package controller

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/scheduler/control/api"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
)

// Diff implements api.Plans.
func (c *Controller) Diff(ctx context.Context) (api.Diff, error) {
	d := api.Diff{Moves: []api.Move{}, Resizes: []api.Resize{}, GPUs: []api.GPUMove{}}
	type preview struct {
		made      plan.Plan
		now       plan.Facts
		scheduler string
	}
	var all []preview
	var err error
	d.Away, err = c.previewed(ctx, func(cell *cell, p plan.Plan, notes []string) {
		all = append(all, preview{p, cell.lead.World(), cell.name})
		last := cell.lead.Plan()
		resized(&d, &last, &p, cell.name)
		for _, text := range notes {
			if cell.name != "" {
				text = cell.name + ": " + text
			}
			d.Kept = append(d.Kept, text)
		}
	})
	if errors.Is(err, &api.Error{Kind: api.KindAway}) { // nothing is known of what there is: no plan would be made
		d.Reason = err.Error()
		return d, nil
	}
	if err != nil {
		return d, err
	}
	for i := range all {
		changes, err := plan.Compare(all[i].made, all[i].now, c.cfg.Plan.Limits) // not in the leader's loop: it takes a while
		if err != nil {
			return d, api.Away(retryAway, false, "what is known of the cluster does not go together yet: %v", err)
		}
		moved(&d, &changes, all[i].scheduler)
	}
	slices.SortStableFunc(d.Moves, func(a, b api.Move) int { return strings.Compare(a.Model, b.Model) })
	return d, nil
}

// resized tells sub-clusters whose numbers of GPUs change, and what both plans need.
func resized(d *api.Diff, last, made *plan.Plan, scheduler string) {
	d.Epoch = max(d.Epoch, last.Epoch)
	for _, s := range made.SubClusters {
		d.Then += s.Need
		r := api.Resize{SubCluster: s.Name, DeviceType: s.DeviceType, To: s.GPUs, Need: s.Need, Scheduler: scheduler}
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
			d.Resizes = append(d.Resizes, api.Resize{SubCluster: s.Name, DeviceType: s.DeviceType, From: s.GPUs, Scheduler: scheduler})
		}
	}
}

// moved tells models and GPUs that move, and what is loaded for it.
func moved(d *api.Diff, changes *plan.Diff, scheduler string) {
	d.Stay, d.Loads, d.Bytes = d.Stay+changes.Stay, d.Loads+changes.Loads, d.Bytes+changes.Bytes
	for _, m := range changes.Models {
		d.Moves = append(d.Moves, api.Move{Model: m.Key, From: m.From, To: m.To, Loads: m.Loads, Bytes: m.Bytes, Scheduler: scheduler})
	}
	for _, g := range changes.GPUs {
		d.GPUs = append(d.GPUs, api.GPUMove{GPU: g.Name, From: g.From, To: g.To, Loads: g.Loads, Bytes: g.Bytes, Scheduler: scheduler})
	}
}
