package plan

import (
	"cmp"
	"slices"
)

// The plan says how many GPUs each sub-cluster has. Which ones is chosen here, anew whenever
// GPUs come and go, and so that little is loaded and nothing that has begun is given up:
//
//  1. A GPU that serves stays where it is, up to the sub-cluster's number. Beyond it, those go
//     that are to leave the cluster, that are idle, then those with the highest ids.
//  2. One that has a goal keeps it.
//  3. Sub-clusters that would have too few for their models are served first, from the GPUs
//     that are free or on their way already, then from those that others give up; and among
//     these the one that has most of the sub-cluster's models.
//
// It follows from the facts alone: the loads of a GPU on its way tell a controller that was
// started again where it is bound for.

// deal sets the goals of a type's GPUs.
func (r *Rollout) deal(deviceType string) {
	var open []*gpu // not kept where they are
	taken := make([]int, len(r.subs))
	goals := make([]*sub, len(r.gpus)) // by place in r.gpus
	for at, s := range r.subs {
		if s.deviceType == deviceType {
			taken[at] = r.keep(s, goals)
		}
	}
	for i, g := range r.gpus {
		if g.state != Out && g.facts.DeviceType == deviceType && goals[i] == nil && !g.facts.Leaving {
			open = append(open, g)
		}
	}
	place := func(g *gpu) int {
		at, _ := slices.BinarySearchFunc(r.gpus, g, func(a, b *gpu) int { return order(a.facts.Name, b.facts.Name) })
		return at
	}
	give := func(g *gpu, at int) {
		goals[place(g)] = r.subs[at]
		taken[at]++
	}
	open = slices.DeleteFunc(open, func(g *gpu) bool { // on its way
		at := slices.Index(r.subs, g.goal)
		if at < 0 || g.state == Serving && !g.drain || taken[at] >= g.goal.wanted() || slices.Contains(g.barred, g.goal) {
			return false
		}
		give(g, at)
		return true
	})
	for _, urgent := range [...]bool{true, false} {
		for at, s := range r.subs {
			missing := s.wanted() - taken[at]
			if urgent {
				missing = min(missing, max(r.required(s, nil), r.requiredAtEnd(s))-taken[at])
			}
			if s.deviceType != deviceType || missing <= 0 || len(open) == 0 {
				continue
			}
			var chosen []*gpu
			chosen, open = r.nearest(open, s, missing)
			for _, g := range chosen {
				give(g, at)
			}
		}
	}
	for _, g := range open {
		goals[place(g)] = r.refuge(g)
	}
	for i, g := range r.gpus {
		if g.facts.DeviceType == deviceType && g.state != Out && g.goal != goals[i] {
			r.aim(g, goals[i])
		}
	}
}

// wanted is how many GPUs the sub-cluster is to have.
func (s *sub) wanted() int { return max(0, s.count-s.less) + s.spare + s.lent }

// keep leaves GPUs where they are, and tells how many.
func (r *Rollout) keep(s *sub, goals []*sub) (n int) {
	var there []*gpu
	for _, g := range s.gpus {
		if g.seating == s || g.in == s && g.state == Serving && g.seating == nil {
			there = append(there, g)
		}
	}
	rank := func(g *gpu) (n int) {
		for i, bad := range [...]bool{g.facts.Idle, g.goal != nil && g.goal != s, g.drain, g.facts.Leaving} {
			if bad {
				n += 1 << i
			}
		}
		if slices.Contains(g.barred, nil) { // it cannot be drained
			n = -1
		}
		return n
	}
	slices.SortStableFunc(there, func(a, b *gpu) int { return cmp.Compare(rank(a), rank(b)) })
	for _, g := range there {
		if n >= s.wanted() && rank(g) >= 0 || g.drain && rank(g) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(r.gpus, g, func(a, b *gpu) int { return order(a.facts.Name, b.facts.Name) })
		goals[at] = s
		n++
	}
	return n
}

// nearest takes n GPUs that have least to do to join a sub-cluster, or fewer.
func (r *Rollout) nearest(open []*gpu, s *sub, n int) (chosen, rest []*gpu) {
	type offer struct {
		gpu   *gpu
		busy  int   // it serves others
		bytes int64 // that it has already
	}
	var offers []offer
	for _, g := range open {
		if slices.Contains(g.barred, s) {
			rest = append(rest, g)
			continue
		}
		o := offer{gpu: g, bytes: r.shared(g, s.target)}
		if g.state == Serving && !g.drain {
			o.busy = 1
		}
		offers = append(offers, o)
	}
	slices.SortStableFunc(offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.busy, b.busy), cmp.Compare(b.bytes, a.bytes), order(b.gpu.facts.Name, a.gpu.facts.Name))
	})
	for i, o := range offers {
		if i < n {
			chosen = append(chosen, o.gpu)
		} else {
			rest = append(rest, o.gpu)
		}
	}
	return chosen, rest
}

// shared is how much of some models a GPU has, in bytes, and one for each model.
func (r *Rollout) shared(g *gpu, models set) (bytes int64) {
	r.scratch.copyOf(g.resident)
	r.scratch.or(g.ordered)
	r.scratch.and(models)
	for i := range r.scratch.all() {
		bytes += r.models[i].facts.Static + 1
	}
	return bytes
}

// refuge is where a GPU goes that could not join the sub-cluster it was for: back to one whose
// models it has. nil: none.
func (r *Rollout) refuge(g *gpu) (best *sub) {
	if len(g.barred) == 0 {
		return nil
	}
	most := int64(0)
	for _, s := range r.subs {
		if s.deviceType != g.facts.DeviceType || slices.Contains(g.barred, s) || s.target.empty() {
			continue
		}
		if bytes := r.shared(g, s.routed); bytes > most {
			best, most = s, bytes
		}
	}
	if best != nil {
		best.spare++
	}
	return best
}
