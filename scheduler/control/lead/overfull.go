package lead

import (
	"maps"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
)

// overfull is why a part's models do not fit into its GPUs' memory however they are divided, and what can be done; "": they may fit,
// or weights come and go there, and the GPUs' memory has no bound for a plan.
func (l *Lead) overfull(p *Part) string {
	if p.gpus == 0 || len(p.keys) == 0 {
		return ""
	}
	whole := l.problem(p, 1)
	whole.MemoryMax = l.memory(p.DeviceType)
	most := p.gpus
	if l.cfg.SubClusters > 0 {
		most = min(most, l.cfg.SubClusters)
	}
	why := whole.Overfull(most)
	switch cannot := l.world.cannotPage(p.DeviceType); {
	case why == "":
		return ""
	case cannot != "":
		return why + "; weights cannot come and go there, for " + cannot + ": add GPUs, give the pool more memory, or remove models"
	}
	return why + "; they would as a paged sub-cluster: give its pools paged (backend.pools[].paged) and restart their backends together, for devices of one type are all paged or all resident; or add GPUs"
}

// cannotPage is why GPUs of a type cannot be paged; "": they can, as far as they have said.
func (w *world) cannotPage(deviceType string) string {
	for _, name := range names(w.gpus) {
		if g := w.gpus[name]; g.facts.DeviceType == deviceType && g.planned().State != plan.Out && g.facts.CannotPage != "" {
			return g.facts.CannotPage
		}
	}
	return ""
}

// overfull are the types whose models do not fit, of which a plan is made all the same: what fits is served.
func overfull(parts []Part) map[string]string {
	over := map[string]string{}
	for i := range parts {
		if p := &parts[i]; p.over != "" && p.Err == nil {
			over[p.DeviceType] = p.over
		}
	}
	return over
}

// tellOverfull says so when it is news.
func (l *Lead) tellOverfull(over map[string]string, out *Effects) {
	if maps.Equal(l.over, over) {
		return
	}
	noteNews(l.over, over, "what fits is served", out)
	l.over = over
}

// noteNews notes what is said of device types and was not before, and what comes of it.
func noteNews(before, now map[string]string, then string, out *Effects) {
	for _, t := range names(now) {
		if before[t] != now[t] {
			out.Notes = append(out.Notes, "device type "+t+": "+now[t]+"; "+then)
		}
	}
}
