package fleet

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/plan"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// run does one instant after the other, in the order of package sim: GPUs and routes change,
// batches end, requests arrive, schedulers step.
func (s *scene) run() {
	for j, p := range s.parts {
		if p != nil {
			s.apply(p)
			s.arm(j)
		}
	}
	for {
		t := s.arrival
		if len(s.changes) > 0 {
			t = min(t, s.clock(s.changes[0]))
		}
		if s.due.Len() > 0 {
			_, at := s.due.Min()
			t = min(t, mono.Time(at))
		}
		if t == mono.Never {
			break
		}
		s.now = max(s.now, t)
		for len(s.changes) > 0 && s.clock(s.changes[0]) <= s.now {
			c := s.changes[0]
			s.changes = s.changes[1:]
			s.change(c)
		}
		for s.due.Len() > 0 {
			j, at := s.due.Min()
			if mono.Time(at) > s.now {
				break
			}
			s.step(int(j))
		}
		for s.arrival <= s.now {
			s.arrive()
			s.nextArrival()
		}
	}
	s.result.Lost += s.open
}

func (s *scene) clock(c Change) mono.Time { return mono.Time(c.At.Sub(s.begin)) }

func (s *scene) nextArrival() {
	at, stream, ok := s.source.Next()
	if !ok || at >= s.stop {
		at = mono.Never
	}
	s.arrival, s.stream = at, stream
}

func (s *scene) counted(t mono.Time) bool { return t >= s.from && t < s.to }

// arm notes when a sub-cluster is due.
func (s *scene) arm(j int) {
	p := s.parts[j]
	at := p.sched.NextWake()
	if p.ends.Len() > 0 {
		_, end := p.ends.Min()
		at = min(at, mono.Time(end))
	}
	if at == mono.Never {
		s.due.Remove(uint32(j))
	} else {
		s.due.Set(uint32(j), int64(at))
	}
}

// step ends batches, and lets the scheduler do what is due.
func (s *scene) step(j int) {
	p := s.parts[j]
	for p.ends.Len() > 0 {
		id, at := p.ends.Min()
		if mono.Time(at) > s.now {
			break
		}
		l := &p.gpus[id]
		b := l.runs[0]
		l.runs = slices.Delete(l.runs, 0, 1)
		p.next(int(id))
		for i := range b.requests {
			s.answered(&b.requests[i], b.end)
		}
		p.sched.Done(s.now, b.id, b.end, &s.out)
	}
	if p.sched.NextWake() <= s.now {
		p.sched.Step(s.now, &s.out)
	}
	s.apply(p)
	s.arm(j)
}

// next arms the end of a GPU's first batch.
func (p *part) next(id int) {
	if l := &p.gpus[id]; len(l.runs) > 0 {
		p.ends.Set(uint32(id), int64(l.runs[0].end))
	} else {
		p.ends.Remove(uint32(id))
	}
}

// apply carries out what a scheduler decided.
func (s *scene) apply(p *part) {
	for len(s.out.Drops)+len(s.out.Dispatches) > 0 {
		for i := range s.out.Drops {
			s.dropped(&s.out.Drops[i].Request, s.out.Drops[i].Reason)
		}
		for i := range s.out.Dispatches {
			s.launch(p, &s.out.Dispatches[i])
		}
		s.out.Reset()
	}
}

func (s *scene) launch(p *part, k *policy.Dispatch) {
	l := &p.gpus[k.GPU]
	start := max(k.Exec, s.now)
	if n := len(l.runs); n > 0 {
		start = max(start, l.runs[n-1].end)
	}
	l.runs = append(l.runs, batch{id: k.Batch, end: start.Add(k.Until.Sub(k.Exec)), requests: slices.Clone(k.Requests)})
	p.next(int(k.GPU))
}

func (s *scene) answered(r *batching.Request, at mono.Time) {
	if !s.counted(r.Arrival) {
		return
	}
	s.open--
	if at <= r.Deadline {
		s.result.Served++
		return
	}
	s.result.Late++
	if r.Input.Length&movedBit != 0 {
		s.result.MovedBad++
	}
}

func (s *scene) dropped(r *batching.Request, reason wire.Reason) {
	if !s.counted(r.Arrival) {
		return
	}
	s.open--
	s.result.Dropped++
	if reason == wire.ReasonUnknownModel {
		s.result.Lost++
	}
	if r.Input.Length&movedBit != 0 {
		s.result.MovedBad++
	}
}

// arrive is a request for a model's number: the newest version that is routed gets it.
func (s *scene) arrive() {
	k := s.heads[s.streams[s.stream]]
	if s.routed[k] < 0 {
		return // it was removed from the catalogue: nobody asks for it any more
	}
	s.serial++
	r := batching.Request{ID: wire.RequestID(s.serial), Arrival: s.now, Deadline: s.now.Add(s.d.models[k].base.SLO)}
	if s.counted(s.now) {
		s.result.Arrived++
		s.open++
	}
	s.submit(k, r)
}

func (s *scene) submit(k int, r batching.Request) {
	j := s.routed[k]
	p := s.part(j)
	if p == nil || p.local[k] < 0 { // it was removed from the catalogue, or went to a part that is not looked at
		s.dropped(&r, wire.ReasonUnavailable)
		return
	}
	p.sched.Submit(s.now, wire.ModelID(p.local[k]), r, &s.out)
	s.apply(p)
	s.arm(j)
}

// change is a step's effect, or a GPU's end.
func (s *scene) change(c Change) {
	now := s.counted(s.now)
	count := func(n *int) {
		if now {
			*n++
		}
	}
	switch c.Kind {
	case plan.Route:
		count(&s.result.Routes)
		s.route(c)
	case plan.Drain:
		count(&s.result.Drains)
		if p := s.part(c.From); p != nil && p.ids[c.GPU] >= 0 {
			p.sched.DrainGPU(s.now, wire.GPUID(p.ids[c.GPU]), &s.out)
			s.left(p, c)
		}
	case plan.Seat:
		count(&s.result.Seats)
		if p := s.part(c.To); p != nil {
			p.join(s.now, c.GPU, &s.out)
			s.apply(p)
			s.arm(c.To)
		}
	case died:
		count(&s.result.Died)
		if p := s.part(c.From); p != nil && p.ids[c.GPU] >= 0 {
			s.dies(p, c)
		}
	}
}

// left: a GPU is not in its sub-cluster any more.
func (s *scene) left(p *part, c Change) {
	p.ids[c.GPU] = -1
	s.apply(p)
	s.arm(c.From)
}

// dies: what runs on a GPU is lost, and its scheduler knows at once. It queues the requests again.
func (s *scene) dies(p *part, c Change) {
	id := p.ids[c.GPU]
	s.result.Cut += int64(len(p.gpus[id].runs))
	p.gpus[id].runs = nil
	p.next(id)
	p.sched.RemoveGPU(s.now, wire.GPUID(id), &s.out)
	s.left(p, c)
}

// route moves a model, and the requests that wait with it. The first version that is routed of a
// number has its requests from then on.
func (s *scene) route(c Change) {
	m := s.d.models[c.Model]
	from, to := s.part(s.routed[c.Model]), s.part(c.To)
	s.routed[c.Model] = c.To
	if to != nil {
		to.add(s.d, c.Model)
		if head := s.heads[m.number]; head >= 0 && s.d.models[head].version <= m.version {
			s.heads[m.number] = c.Model
		}
	}
	if from == nil || from.local[c.Model] < 0 || from == to {
		return
	}
	var waiting []batching.Request
	from.sched.RemoveModel(wire.ModelID(from.local[c.Model]), &s.out)
	for i := range s.out.Drops {
		waiting = append(waiting, s.out.Drops[i].Request)
	}
	s.out.Drops = s.out.Drops[:0]
	from.local[c.Model] = -1
	s.apply(from)
	s.arm(slices.Index(s.parts, from))
	for _, r := range waiting {
		if c.To < 0 { // removed from the catalogue, or followed by another version
			if head := s.heads[m.number]; head != c.Model {
				s.submit(head, r)
			} else {
				s.dropped(&r, wire.ReasonUnavailable)
			}
			continue
		}
		if s.counted(r.Arrival) {
			s.result.Moved++
		}
		r.Input.Length |= movedBit
		s.submit(c.Model, r)
	}
}
