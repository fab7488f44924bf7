package server

import (
	"github.com/symphony-serving/symphony/scheduler/engine"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/watch"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lookPages tells of what a paged pool's GPUs hold, by the rank loop's last look, where that has changed; asks: it is time to
// ask for another.
func (t *toldPool) lookPages(asks bool, to []watch.Event) []watch.Event {
	e := t.pool.engine
	if look := e.PagesSeen(); look != nil {
		for id := range look.GPUs {
			for id >= len(t.held) {
				t.held = append(t.held, watch.MemoryInfo{})
			}
			m := memoryOf(&look.GPUs[id])
			if id >= len(t.gpus) || !t.gpus[id] || m.Pages == 0 {
				m = watch.MemoryInfo{} // it is away: nothing is told of it
			}
			if m == t.held[id] {
				continue
			}
			if t.held[id] = m; m.Pages > 0 {
				to = append(to, watch.Event{Kind: watch.Memory, At: look.At, Pool: int32(t.pool.index), GPU: wire.GPUID(id), Info: &watch.Info{Memory: &m}})
			}
		}
	}
	if asks {
		e.LookAtPages()
	}
	return to
}

func memoryOf(m *engine.GPUMemory) watch.MemoryInfo {
	out := watch.MemoryInfo{Pages: m.Pages, Free: m.Free, Held: m.Held, Loading: m.Loading, Cold: m.Cold, Copies: m.Copies, Failed: m.Failed,
		Room: m.Unloads[residency.Room], Removed: m.Unloads[residency.Removed], Stray: m.Unloads[residency.Stray], Busy: m.Busy}
	if m.Oldest < mono.Never {
		out.Oldest = m.Oldest
	}
	return out
}

// pagedCounts are what is told of a model of a paged pool beside its counts.
type pagedCounts struct {
	warm, cold, loads uint64
	held              int
	unmet             mono.Dur
}

// pagedCounts are the model's, by the last look; of a pool that is not paged nothing.
func (p *pool) pagedCounts(id wire.ModelID, c *modelCount) (k pagedCounts) {
	if p.paged == nil {
		return k
	}
	k.warm, k.cold = c.warm.Load(), c.cold.Load()
	if look := p.engine.PagesSeen(); look != nil && int(id) < len(look.Models) {
		m := &look.Models[id]
		k.loads, k.held, k.unmet = m.Loads, m.Held, m.Unmet
	}
	return k
}

func (k *pagedCounts) tell(i *watch.Info) {
	i.Warm, i.Cold, i.Loads, i.Held, i.Unmet = k.warm, k.cold, k.loads, k.held, k.unmet
}
