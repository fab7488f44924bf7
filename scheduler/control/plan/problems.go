package plan

import "fmt"

// Problem is something that a roll-out left undone.
type Problem struct {
	Model, GPU, SubCluster string // those that it is about
	Reason                 string
	GaveUp                 bool // the model's loads, measures or routes failed too often; else it has not come to them
}

func (p Problem) String() string {
	text := ""
	for _, part := range []struct{ what, name string }{{"model", p.Model}, {"GPU", p.GPU}, {"sub-cluster", p.SubCluster}} {
		if part.name != "" {
			text += part.what + " " + part.name + ": "
		}
	}
	return text + p.Reason
}

// Phase is how far the roll-out is.
func (r *Rollout) Phase() Phase {
	switch {
	case !r.ended || len(r.flights) > 0 || len(r.wakes) > 0:
		return Running
	case len(r.Problems()) > 0:
		return Marked
	}
	return Done
}

// Problems are what is not as the plan wants it and, once the roll-out has ended, stays so.
func (r *Rollout) Problems() (out []Problem) {
	for _, m := range r.models {
		if m.failed != "" {
			out = append(out, Problem{Model: m.facts.Key, Reason: m.failed, GaveUp: true})
		} else if m.routed != m.home {
			out = append(out, Problem{Model: m.facts.Key, Reason: r.whyNot(m)})
		}
		if m.unset != "" {
			out = append(out, Problem{Model: m.facts.Key, Reason: m.unset})
		}
	}
	for _, g := range r.gpus {
		in := g.in
		if g.state == Draining {
			in = nil
		}
		switch {
		case g.state == Out:
		case !g.stays.empty():
			out = append(out, Problem{GPU: g.facts.Name, Reason: "has models that could not be unloaded"})
		case !g.loading.empty():
			out = append(out, Problem{GPU: g.facts.Name, Reason: "loads models that nobody waits for"})
		case in != g.goal && in != nil && in.serving() <= in.count: // the plan has it so
		case in != g.goal && in != nil:
			out = append(out, Problem{GPU: g.facts.Name, SubCluster: in.name, Reason: fmt.Sprintf("it cannot leave: %d GPUs serve, %d are needed", in.serving(), r.required(in, nil))})
		case in != g.goal:
			out = append(out, Problem{GPU: g.facts.Name, SubCluster: g.goal.name, Reason: "it cannot join: it has no room for the models that are served there"})
		}
	}
	for _, s := range r.subs {
		if n := s.serving(); n != s.count {
			p := Problem{SubCluster: s.name, Reason: fmt.Sprintf("has %d GPUs, not %d", n, s.count)}
			if s.missed != "" {
				p.Reason += ": " + s.missed
			}
			out = append(out, p)
		}
	}
	return out
}

// whyNot is what keeps a model from its place.
func (r *Rollout) whyNot(m *model) string {
	s := m.home
	if s == nil {
		if heir := r.awaited(m); heir != nil {
			return "stays until " + heir.facts.Key + " is served"
		}
		return "is still served by " + m.routed.name
	}
	switch {
	case s.serving() == 0:
		return "sub-cluster " + s.name + " has no GPU"
	case !m.profiled(s.deviceType):
		return "no GPU of type " + s.deviceType + " is idle, or can be drained, to measure it on"
	}
	for _, g := range s.gpus {
		if s.counts(g) && !g.resident.has(m.index) && !r.fits(g, m) {
			return "GPU " + g.facts.Name + " has no room for it"
		}
	}
	return fmt.Sprintf("sub-cluster %s has %d GPUs, and would need %d", s.name, s.serving(), r.required(s, m))
}
