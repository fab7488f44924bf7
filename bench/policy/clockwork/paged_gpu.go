package clockwork

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/estimate"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// offer puts a model that has requests among those that the GPU could run.
func (g *pagedGPU) offer(id wire.ModelID) {
	for int(id) >= len(g.place) {
		g.place = append(g.place, 0)
	}
	if g.place[id] == 0 {
		g.ready = append(g.ready, id)
		g.place[id] = int32(len(g.ready))
	}
}

// withdraw takes it out.
func (g *pagedGPU) withdraw(id wire.ModelID) {
	if int(id) >= len(g.place) || g.place[id] == 0 {
		return
	}
	i, last := g.place[id]-1, len(g.ready)-1
	g.ready[i] = g.ready[last]
	g.place[g.ready[i]] = i + 1
	g.ready, g.place[id] = g.ready[:last], 0
}

// move carries out what the memory has decided. A model can run where its weights are: a
// Place for later says that they are on their way, and is followed by one for now.
func (s *Paged) move(now mono.Time, out *policy.Out) {
	for _, k := range s.moves.Displaces {
		s.displace(k.Model, k.GPU)
	}
	for _, k := range s.moves.Unloads {
		out.Unloads = append(out.Unloads, policy.Unload{Model: k.Model, GPU: k.GPU})
	}
	for _, k := range s.moves.Loads {
		out.Loads = append(out.Loads, policy.Load{ID: policy.LoadID(k.ID), Model: k.Model, GPU: k.GPU, Until: k.Until, Latest: k.Latest})
	}
	for _, k := range s.moves.Places {
		if m := &s.models[k.Model]; k.From <= now && !slices.Contains(m.on, k.GPU) {
			m.on = append(m.on, k.GPU)
			if m.queue.Len() > 0 {
				s.gpus[k.GPU].offer(k.Model)
				s.wake(k.GPU)
			}
		}
	}
	s.moves.Reset()
}

// displace: a model runs no more on a GPU.
func (s *Paged) displace(id wire.ModelID, gpu wire.GPUID) {
	m := &s.models[id]
	if i := slices.Index(m.on, gpu); i >= 0 {
		m.on = slices.Delete(m.on, i, i+1)
		s.gpus[gpu].withdraw(id)
	}
}

// Loaded implements policy.Loader.
func (s *Paged) Loaded(now mono.Time, r policy.LoadReport, out *policy.Out) {
	s.memory.Loaded(now, residency.Report{ID: residency.LoadID(r.ID), Start: r.Start, End: r.End, OK: r.OK}, &s.moves)
	s.move(now, out)
}

// AddGPU implements policy.Scheduler.
func (s *Paged) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	s.AddGPUWith(now, id, nil, out)
}

// AddGPUWith implements policy.Loader.
func (s *Paged) AddGPUWith(now mono.Time, id wire.GPUID, held []wire.ModelID, out *policy.Out) {
	for int(id) >= len(s.gpus) {
		s.gpus = append(s.gpus, pagedGPU{})
	}
	s.RemoveGPU(now, id, out)
	s.present++
	g := &s.gpus[id]
	g.gpu = gpu{present: true, free: now, batches: g.batches[:0]}
	s.memory.AddGPU(now, id, s.cfg.Pages, held, &s.moves)
	s.move(now, out)
}

// RemoveGPU implements policy.Scheduler. With the last GPU everything that
// waits goes too.
func (s *Paged) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.gpus) || !s.gpus[id].present {
		return
	}
	s.present--
	s.gpus[id].present = false
	s.memory.RemoveGPU(now, id, &s.moves)
	s.move(now, out)
	s.free.Remove(uint32(id))
	s.ids = s.ledger.OnGPU(id, s.ids[:0])
	for _, batch := range s.ids {
		s.requeue(now, s.ledger.Find(batch), out)
	}
	if s.present > 0 {
		return
	}
	for i := range s.models {
		m, n := &s.models[i], s.models[i].queue.Len()
		for range n {
			out.Drop(s.pop(m), wire.ReasonUnavailable)
		}
		if n > 0 {
			s.memory.Doomed(now, wire.ModelID(i), n)
			s.retime(wire.ModelID(i))
		}
	}
}

// requeue puts the requests of a lost batch back, where time is left.
func (s *Paged) requeue(now mono.Time, r *policy.Running, out *policy.Out) {
	s.ledger.End(r)
	s.running -= len(r.Requests)
	alone := now.Add(s.cfg.Delay.Of(1)).Add(s.models[r.Model].took[0])
	for _, q := range r.Requests {
		if s.present == 0 || q.Deadline < alone {
			out.Drop(q, wire.ReasonBackendLost)
			continue
		}
		s.push(now, r.Model, q)
	}
	s.retime(r.Model)
}

// Took implements policy.Timed.
func (s *Paged) Took(batch wire.BatchID, d mono.Dur) {
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	k := estimate.Key{Model: r.Model, Size: len(r.Requests)}
	s.times.Add(k, estimate.Reference, d)
	if e, ok := s.times.Estimate(k, estimate.Reference); ok {
		s.models[r.Model].took[s.number(k.Size)] = e
	}
}

// Done implements policy.Scheduler.
func (s *Paged) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	s.ledger.End(r)
	s.running -= len(r.Requests)
	if h, ok := s.memory.Held(r.Model, r.GPU); ok {
		s.memory.Ended(now, r.Model, r.GPU, h.Generation)
	}
	s.gpus[r.GPU].done(batch, end)
	s.wake(r.GPU)
}
