package nexus

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// renew ends the epoch when its time has come, and makes the plan anew when it
// is due or GPUs or models were added.
func (s *Scheduler) renew(now mono.Time) {
	if !s.begun {
		s.begun, s.since = true, now
	}
	if now.Sub(s.since) >= s.epoch {
		s.observe(now.Sub(s.since))
		s.since = now
		s.stale = true
	}
	if s.stale {
		s.moved = s.moved[:0]
		s.install()
	}
}

// observe sets the rates to those of the epoch; one without arrivals says
// nothing about the next.
func (s *Scheduler) observe(span mono.Dur) {
	total := 0
	for i := range s.models {
		total += s.models[i].arrivals
	}
	for i := range s.models {
		if m := &s.models[i]; total > 0 {
			m.rate = float64(m.arrivals) / span.Seconds()
			m.arrivals = 0
		}
	}
}

// install makes the plan and gives it to GPUs, in the order of their ids, and
// to frontends; then it routes what moved. A queue stays where its GPU keeps
// the model.
func (s *Scheduler) install() {
	s.stale = false
	nodes := s.plan()
	for i := range s.models {
		s.models[i].routes = s.models[i].routes[:0]
	}
	n := 0
	for id := range s.gpus {
		if s.gpus[id].alive && n < len(nodes) {
			s.assign(wire.GPUID(id), nodes[n].items)
			n++
		}
	}
	for i := range s.models {
		setSteps(s.models[i].routes)
	}
	for i := range s.frontends {
		s.frontends[i].reset(s.models, s.rand)
	}
	for _, w := range s.moved {
		s.route(w)
	}
}

// plan is a node for each living GPU, for the rates in force.
func (s *Scheduler) plan() []node {
	least := 1 / s.epoch.Seconds()
	s.planner.sessions = s.planner.sessions[:0]
	for i := range s.models {
		m := &s.models[i]
		k := newSession(m.profile, m.slo, s.cfg.Delay, max(m.rate, least))
		k.burst = burstOf(k.rate, m.slo)
		s.planner.sessions = append(s.planner.sessions, k)
	}
	return s.planner.fill(s.alive)
}

// assign gives a GPU its slots, with the queues of sessions that it keeps.
func (s *Scheduler) assign(id wire.GPUID, items []item) {
	g := &s.gpus[id]
	old := g.slots
	g.slots = make([]slot, len(items))
	g.first = none
	for i, k := range items {
		g.slots[i] = slot{model: k.model, batch: k.batch}
		for j := range old {
			if old[j].model == k.model {
				g.slots[i].queue, old[j].queue = old[j].queue, g.slots[i].queue
			}
		}
		if g.slots[i].queue.Len() > 0 {
			g.enqueue(int32(i))
		}
		m := &s.models[k.model]
		m.routes = append(m.routes, route{gpu: id, slot: int32(i), rate: k.rate})
	}
	for j := range old {
		s.evict(&old[j])
	}
	s.arm(id)
}
