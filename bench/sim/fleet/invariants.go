package fleet

import (
	"fmt"

	"github.com/symphony-serving/symphony/scheduler/control/plan"
)

// The world holds the planner to what it promises, at each step: a day in which a promise is
// broken ends with an error.

// holdsMemory: what is on a GPU, or being loaded, has room, beside the largest of them at work.
func (d *Day) holdsMemory(gpu int) {
	g := &d.gpus[gpu]
	static, dynamic := int64(0), int64(0)
	for k, m := range d.models {
		if g.resident.has(k) || g.loading.has(k) {
			static += m.static
			dynamic = max(dynamic, m.dynamic)
		}
	}
	if static+dynamic > d.cfg.Memory {
		d.breaks("GPU %s has %d bytes for %d", g.name, d.cfg.Memory, static+dynamic)
	}
}

// hasAll: a GPU that joins a sub-cluster has all that is served there.
func (d *Day) hasAll(gpu int) {
	g := &d.gpus[gpu]
	for k, j := range d.routed {
		if j == g.in && !g.resident.has(k) {
			d.breaks("GPU %s joins sub-cluster %s without model %s", g.name, subName(j), d.models[k].key())
		}
	}
}

// everywhere: a model that is routed to a sub-cluster is on all GPUs there.
func (d *Day) everywhere(k int) {
	for i := range d.gpus {
		if g := &d.gpus[i]; d.routed[k] >= 0 && g.in == d.routed[k] && g.state == plan.Serving && !g.resident.has(k) {
			d.breaks("model %s is routed to sub-cluster %s, and GPU %s does not have it", d.models[k].key(), subName(g.in), g.name)
		}
	}
}

func (d *Day) breaks(format string, args ...any) {
	if d.wrong == nil {
		d.wrong = fmt.Errorf("the planner breaks its word: "+format, args...)
	}
}
