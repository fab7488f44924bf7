package plan

import "slices"

// Diff is what a plan would change.
type Diff struct {
	Models []ModelMove // that change their sub-cluster, by key
	GPUs   []GPUMove   // that do, by name
	Stay   int         // models that do not
	Loads  int         // onto single GPUs
	Bytes  int64       // of these
}

// ModelMove is a model that changes its sub-cluster.
type ModelMove struct {
	Key      string
	From, To string // "": nowhere
	Loads    int    // on the GPUs that stay in To
	Bytes    int64
}

// GPUMove is a GPU that changes its sub-cluster.
type GPUMove struct {
	Name     string
	From, To string // "": free
	Loads    int
	Bytes    int64
}

// Compare is what the plan would change in the world of the facts, in the way that a roll-out
// would choose.
func Compare(p Plan, f Facts, l Limits) (Diff, error) {
	var d Diff
	r, err := New(p, f, l)
	if err != nil {
		return d, err
	}
	for len(r.aimless) > 0 {
		deviceType := r.aimless[0]
		r.aimless = r.aimless[1:]
		r.deal(deviceType)
	}
	for _, m := range r.models {
		if m.routed == m.home {
			if m.home != nil {
				d.Stay++
			}
			continue
		}
		move := ModelMove{Key: m.facts.Key, From: m.routed.text(), To: m.home.text()}
		if m.home != nil {
			for _, g := range m.home.gpus {
				if g.goal == m.home && !g.resident.has(m.index) {
					move.Loads++
					move.Bytes += m.facts.Static
				}
			}
		}
		d.Models = append(d.Models, move)
		d.Loads, d.Bytes = d.Loads+move.Loads, d.Bytes+move.Bytes
	}
	slices.SortFunc(d.Models, func(a, b ModelMove) int { return order(a.Key, b.Key) })
	for _, g := range r.gpus {
		if g.state == Out || g.in == g.goal {
			continue
		}
		move := GPUMove{Name: g.facts.Name, From: g.in.text(), To: g.goal.text()}
		if g.goal != nil {
			for i := range g.goal.target.without(g.resident) {
				move.Loads++
				move.Bytes += r.models[i].facts.Static
			}
		}
		d.GPUs = append(d.GPUs, move)
		d.Loads, d.Bytes = d.Loads+move.Loads, d.Bytes+move.Bytes
	}
	return d, nil
}

func (s *sub) text() string {
	if s == nil {
		return ""
	}
	return s.name
}
