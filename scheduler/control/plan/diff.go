package plan

import (
	"fmt"
	"slices"
)

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

// Lines are the Diff for people.
func (d *Diff) Lines() (out []string) {
	show := func(name, none string) string {
		if name == "" {
			return none
		}
		return name
	}
	for _, m := range d.Models {
		line := fmt.Sprintf("model %s: %s -> %s", m.Key, show(m.From, "nowhere"), show(m.To, "nowhere"))
		if m.Loads > 0 {
			line += fmt.Sprintf(", %d loads, %s", m.Loads, size(m.Bytes))
		}
		out = append(out, line)
	}
	for _, g := range d.GPUs {
		line := fmt.Sprintf("GPU %s: %s -> %s", g.Name, show(g.From, "free"), show(g.To, "free"))
		if g.Loads > 0 {
			line += fmt.Sprintf(", %d loads, %s", g.Loads, size(g.Bytes))
		}
		out = append(out, line)
	}
	return append(out, fmt.Sprintf("%d models move, %d stay; %d GPUs move; %d loads, %s", len(d.Models), d.Stay, len(d.GPUs), d.Loads, size(d.Bytes)))
}

// size is bytes for people.
func size(bytes int64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(bytes), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	if u == 0 {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", v, units[u])
}
