package published

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// model is one model's waiting requests and its candidate.
type model struct {
	profile *profile.Profile // nil: no such model
	slo     mono.Dur
	queue   policy.Queue
	meter   meter
	target  int // batch size that the window drop holds

	size   int       // of the candidate; 0: none
	exec   mono.Time // its desired start
	latest mono.Time // last start that keeps the earliest deadline
}

// Scheduler is the model threads and the rank thread of the published code.
// Invariant: a model with a candidate is in expires, and in at most one of
// timers and ready; those in ready are in reach, too.
type Scheduler struct {
	cfg    policy.Config
	models []model
	gpus   []gpu
	ledger policy.Ledger

	timers  pq.Heap // model -> when its order leaves for its desired start
	ready   pq.Heap // model that found no free GPU -> latest
	reach   pq.Heap // the same -> minus its delay: the greatest first
	expires pq.Heap // model with a candidate -> the first instant at which it is too late for it
	free    pq.Heap // GPU -> when it is free; without those that are gone or overdue

	present int // GPUs
	waiting int // requests in queues
	running int // requests in batches

	batch []batching.Request // scratch of dispatch
	ids   []wire.BatchID     // scratch of RemoveGPU
}

var _ policy.Scheduler = (*Scheduler)(nil)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config) *Scheduler { return &Scheduler{cfg: cfg} }

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, model{})
	}
	k := &s.models[id]
	k.profile, k.slo = m.Profile, m.SLO
	k.target = max(1, m.Profile.Largest(m.SLO/2, 0))
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	known := int(id) < len(s.models) && s.models[id].profile != nil
	if !s.cfg.Admit(r, known, s.present, s.waiting+s.running, out) {
		return
	}
	m := &s.models[id]
	s.waiting++
	m.queue.Push(r)
	m.retarget(now, s.cfg.Delay)
	m.meter.hit(now)
	s.refresh(now, id, out)
}

// Step implements policy.Scheduler. Each turn takes a model out of a heap, or a
// batch out of a queue, so Step ends.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	for {
		switch {
		case due(&s.expires, now):
			id, _ := s.expires.Min()
			s.refresh(now, wire.ModelID(id), out)
		case due(&s.timers, now):
			id, _ := s.timers.Min()
			s.timers.Remove(id)
			s.seek(now, wire.ModelID(id), out)
		case s.gpuTimer() <= now:
			s.offer(now, out)
		default:
			invariants.Check(s.NextWake() > now, "published: something is due after Step")
			return
		}
	}
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time {
	return min(first(&s.expires), first(&s.timers), s.gpuTimer())
}

// first is the least key; Never in an empty heap.
func first(h *pq.Heap) mono.Time {
	if h.Len() == 0 {
		return mono.Never
	}
	_, key := h.Min()
	return mono.Time(key)
}

func due(h *pq.Heap, now mono.Time) bool { return h.Len() > 0 && first(h) <= now }
