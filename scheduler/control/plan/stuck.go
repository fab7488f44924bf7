package plan

import (
	"fmt"
	"slices"
)

// What happens when nothing is under way and nothing can go on, in this order:
//
//  1. Limits that only save work are lifted: more models are warmed at a time, more GPUs are out
//     of service, GPUs on their way load models that were to leave meanwhile.
//  2. GPUs are lent: a free one, or one that another sub-cluster has to spare, takes the place
//     of one that cannot leave its sub-cluster yet.
//  3. There are not enough GPUs for any order. The step goes ahead that leaves the smallest
//     shortage, and says so (Step.Why). GPUs are not taken in this way from a sub-cluster that
//     would be short of them in the end too: its need has outgrown the plan, which must be
//     made anew.
//  4. Memory stands in the way, because models are to change places: one makes a detour over a
//     sub-cluster that has room.
//  5. What is on GPUs for nothing is unloaded. That is also the end of every roll-out.

// unstick tells whether anything can go on now.
func (r *Rollout) unstick() bool {
	before := len(r.out)
	r.loose = true
	for _, s := range r.subs {
		r.touch(s)
	}
	r.settle()
	r.loose = false
	if len(r.out) > before {
		return true
	}
	if r.swaps < 2*len(r.gpus)+2 && (r.lend() || r.swap() || r.giveBack()) {
		r.swaps++
		return true
	}
	return r.shorten() || r.detour() || r.clean()
}

// wanting is a model that lacks nothing but GPUs to be routed to s. nil: there is none.
func (r *Rollout) wanting(s *sub) *model {
	for i := range s.target.without(s.routed) {
		if m := r.models[i]; r.ready(s, m) && s.serving() < r.required(s, m) {
			return m
		}
	}
	return nil
}

// lend gives a free GPU to a sub-cluster that a model cannot come to for lack of it. Not of
// several: until the last of them serves, a controller that is started again would see GPUs too
// many, and take them back.
func (r *Rollout) lend() bool {
	for _, s := range r.subs {
		if s.target.within(s.routed) || len(s.due) > 0 {
			continue
		}
		if m := r.wanting(s); m == nil || r.required(s, m) != s.serving()+1 {
			continue
		}
		var best *gpu
		most := int64(-1)
		for _, g := range r.gpus {
			if g.state != Free || g.goal != nil || g.seating != nil || g.facts.Leaving || g.facts.DeviceType != s.deviceType || len(g.barred) > 0 || !r.holds(g, s, nil) {
				continue
			}
			if bytes := r.shared(g, s.target); bytes > most {
				best, most = g, bytes
			}
		}
		if best != nil {
			s.lent++
			r.aim(best, s)
			return true
		}
	}
	return false
}

// holds tells whether a GPU has the memory for all models of a sub-cluster, those to come too,
// and for one more, if not nil.
func (r *Rollout) holds(g *gpu, s *sub, more *model) bool {
	static, dynamic := int64(0), int64(0)
	r.union.copyOf(s.routed)
	r.union.or(s.target)
	if more != nil {
		r.union.add(more.index)
	}
	for i := range r.union.all() {
		static += r.models[i].facts.Static
		dynamic = max(dynamic, r.models[i].facts.Dynamic)
	}
	return g.facts.Memory <= 0 || static <= g.facts.Memory-dynamic
}

// giveBack ends that.
func (r *Rollout) giveBack() bool {
	for _, s := range r.subs {
		if s.lent > 0 && r.wanting(s) == nil {
			s.lent = 0
			r.unaimed(s.deviceType)
			return true
		}
	}
	return false
}

// swap has a GPU go first that its sub-cluster can spare, in place of one that cannot leave.
func (r *Rollout) swap() bool {
	for _, a := range r.subs {
		for _, g := range a.gpus {
			if g.in != a || g.state != Serving || g.drain || g.goal == a || g.goal == nil || g.seating != nil {
				continue
			}
			to := g.goal
			if to.serving() >= min(to.wanted(), max(r.required(to, nil), r.requiredAtEnd(to))) {
				continue // it can wait
			}
			for _, c := range r.subs {
				if c == a || c == to || c.deviceType != a.deviceType || c.serving()-1 < max(r.required(c, nil), r.requiredAtEnd(c)) {
					continue
				}
				for i := len(c.gpus) - 1; i >= 0; i-- {
					o := c.gpus[i]
					if o.in == c && o.goal == c && o.state == Serving && !o.drain && !o.facts.Leaving && o.seating == nil && len(o.barred) == 0 {
						r.aim(o, to)
						r.aim(g, c)
						return true
					}
				}
			}
		}
	}
	return false
}

// shorten takes the step that leaves the smallest shortage of GPUs.
func (r *Rollout) shorten() bool {
	least, at := 0, (*sub)(nil)
	var g *gpu
	var m *model
	for _, s := range r.subs {
		for i := range s.target.without(s.routed) {
			o := r.models[i]
			if !r.ready(s, o) {
				continue
			}
			if n := r.required(s, o) - s.serving(); n > 0 && (at == nil || n < least) {
				least, at, m, g = n, s, o, nil
			}
		}
	}
	for _, s := range r.subs {
		o := r.departing(s)
		if o == nil {
			continue
		}
		if n := r.required(s, nil) - (s.serving() - 1); n > 0 && (at == nil || n < least) {
			least, at, m, g = n, s, nil, o
		}
	}
	switch {
	case at == nil:
		return false
	case m != nil:
		r.route(m, at, fmt.Sprintf("%s needs %d GPUs then and has %d: there are too few for any order", at.name, r.required(at, m), at.serving()))
	default:
		r.drainNow(g, fmt.Sprintf("%s needs %d GPUs and has %d then: there are too few for any order", at.name, r.required(at, nil), at.serving()-1))
	}
	return true
}

// departing is a GPU that another sub-cluster waits for, if this one has enough without it in
// the end. The last one leaves only if nothing is to stay.
func (r *Rollout) departing(s *sub) *gpu {
	end := r.requiredAtEnd(s)
	if end > s.wanted() || s.serving() < 2 && end > 0 {
		return nil
	}
	for i := len(s.gpus) - 1; i >= 0; i-- {
		g := s.gpus[i]
		if g.in == s && g.state == Serving && !g.drain && g.goal != s && g.goal != nil && g.retry[ofGPU] <= r.now {
			return g
		}
	}
	return nil
}

// detour sends a model over a third sub-cluster, if there is no room where it is to be, and it
// stands in another's way where it is. The third has room for all of its own models beside it,
// so it stands in nobody's way there: however often a controller begins anew, a model makes no
// second detour before it has arrived.
func (r *Rollout) detour() bool {
	full := make([]bool, len(r.subs)) // a model cannot come for lack of room
	for at, s := range r.subs {
		for i := range s.target.without(s.routed) {
			full[at] = full[at] || r.crowded(s, r.models[i])
		}
	}
	for _, m := range r.models {
		to := m.target
		if m.strayed || to == nil || m.routed == nil || m.routed == to || m.failed != "" || !full[slices.Index(r.subs, m.routed)] || !r.crowded(to, m) {
			continue
		}
		if by := r.by(m); by != nil {
			m.strayed = true
			to.target.del(m.index)
			by.target.add(m.index)
			m.target = by
			r.touch(by)
			return true
		}
	}
	return false
}

// by is a sub-cluster for a model's detour: that which has most copies of it already.
func (r *Rollout) by(m *model) (best *sub) {
	most := -1
	for _, s := range r.subs {
		if s == m.target || s == m.routed || s.serving() == 0 || !m.profiled(s.deviceType) || s.serving() < r.required(s, m) {
			continue
		}
		copies := 0
		for _, g := range s.gpus {
			if !r.holds(g, s, m) || s.counts(g) && !g.resident.has(m.index) && !r.fits(g, m) {
				copies = -1
				break
			}
			if g.resident.has(m.index) {
				copies++
			}
		}
		if copies > most {
			best, most = s, copies
		}
	}
	return best
}

// crowded tells whether a GPU of the sub-cluster has no room for a model.
func (r *Rollout) crowded(s *sub, m *model) bool {
	for _, g := range s.gpus {
		if s.counts(g) && !g.resident.has(m.index) && !r.fits(g, m) {
			return true
		}
	}
	return false
}

// clean unloads what is on GPUs for nothing.
func (r *Rollout) clean() bool {
	if r.garbage == nil {
		r.garbage = append(r.garbage, r.gpus...)
	}
	before := len(r.out)
	for len(r.garbage) > 0 && !r.enough() {
		if !r.garbage[0].facts.Leaving { // all of it goes
			r.discard(r.garbage[0], false)
		}
		r.garbage = r.garbage[1:]
	}
	return len(r.out) > before
}
