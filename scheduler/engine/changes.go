package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/wire"
)

// changes are what the tuner must know of models, GPUs and delays, until it looks: what they
// have become, not each step on the way, so that there are never more than there are models.
// Any goroutine; nil: there is no tuner.
type changes struct {
	mu     sync.Mutex // Guards what follows.
	closed bool       // nobody looks any more
	models map[wire.ModelID]modelChange
	delay  *batching.Delay // nil: as before
	gpus   int             // -1: as before
}

// modelChange is what became of a model: its removal, then its addition.
type modelChange struct {
	removed bool
	added   *policy.Model
}

func newChanges() *changes { return &changes{models: map[wire.ModelID]modelChange{}, gpus: -1} }

func (c *changes) change(f func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		f()
	}
}

func (c *changes) addModel(id wire.ModelID, m policy.Model) {
	c.change(func() { c.models[id] = modelChange{removed: c.models[id].removed, added: &m} })
}

func (c *changes) removeModel(id wire.ModelID) {
	c.change(func() { c.models[id] = modelChange{removed: true} })
}

func (c *changes) setDelay(d batching.Delay) { c.change(func() { c.delay = &d }) }

func (c *changes) setGPUs(n int) { c.change(func() { c.gpus = n }) }

// take hands them to the tuner, in the order of the models' ids.
func (c *changes) take(t *tuner.Tuner, names *names) {
	c.mu.Lock()
	var models map[wire.ModelID]modelChange
	if len(c.models) > 0 {
		models, c.models = c.models, map[wire.ModelID]modelChange{}
	}
	delay, gpus := c.delay, c.gpus
	c.delay, c.gpus = nil, -1
	c.mu.Unlock()
	var ids []wire.ModelID
	if len(models) > 0 { // in nearly all looks there is nothing, and nothing is allocated
		ids = slices.Sorted(maps.Keys(models))
	}
	for _, id := range ids {
		m := models[id]
		if given, known := names.of(id); known && m.removed {
			t.RemoveModel(given)
			names.remove(id)
		}
		if m.added != nil {
			t.AddModel(names.add(id), *m.added)
		}
	}
	if delay != nil {
		t.SetDelay(*delay)
	}
	if gpus >= 0 {
		t.SetGPUs(gpus)
	}
}

// close gives up what nobody will look at.
func (c *changes) close() {
	c.change(func() { c.closed, c.models, c.delay = true, nil, nil })
}
