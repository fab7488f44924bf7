package nexus

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Options of the baseline.
type Options struct {
	Epoch mono.Dur // time between plans; 0 means 10 s, as in the paper
}

// Scheduler is the planner, the frontends' routing and the GPUs' queues. They
// are apart in Nexus; here they share a struct but no knowledge: a frontend
// sees the plan only, a GPU its own queues only.
type Scheduler struct {
	cfg       policy.Config
	epoch     mono.Dur
	models    []model
	gpus      []gpu
	alive     int
	frontends []frontend
	timers    pq.Heap // GPU -> when its next batch is ordered
	ledger    policy.Ledger
	requests  int // queued or running
	stale     bool
	begun     bool
	since     mono.Time // begin of the epoch
	rand      *rand.Rand
	planner   planner
	batch     []batching.Request // scratch of serve
	moved     []waiting          // scratch of install and RemoveGPU
}

// model is what is known of one.
type model struct {
	profile  *profile.Profile
	slo      mono.Dur
	rate     float64 // that the plan is made for, requests/s
	arrivals int     // in this epoch
	routes   []route
}

// waiting is a request between two queues.
type waiting struct {
	model   wire.ModelID
	request batching.Request
}

var _ policy.Scheduler = (*Scheduler)(nil)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *Scheduler {
	s := &Scheduler{cfg: cfg, epoch: opts.Epoch, frontends: make([]frontend, max(1, cfg.Frontends)),
		rand: rand.New(rand.NewPCG(cfg.Seed, 0x6e65787573))}
	if s.epoch <= 0 {
		s.epoch = 10 * mono.Second
	}
	return s
}

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, model{})
	}
	s.models[id] = model{profile: m.Profile, slo: m.SLO, rate: m.Rate}
	s.stale = true
}

// AddGPU implements policy.Scheduler. The next Submit or Step makes the plan,
// one for all GPUs that are added together.
func (s *Scheduler) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	for int(id) >= len(s.gpus) {
		s.gpus = append(s.gpus, gpu{})
	}
	if s.gpus[id].alive {
		return
	}
	s.gpus[id] = gpu{alive: true, free: now, first: none, last: none}
	s.alive++
	s.stale = true
}

// RemoveGPU implements policy.Scheduler. What waited for the GPU has lost it
// as much as what ran there: both are routed by the new plan, or dropped.
func (s *Scheduler) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.gpus) || !s.gpus[id].alive {
		return
	}
	g := &s.gpus[id]
	s.moved = s.moved[:0]
	for _, batch := range g.undone {
		r := s.ledger.Find(batch)
		for _, q := range r.Requests {
			s.moved = append(s.moved, waiting{r.Model, q})
		}
		s.ledger.End(r)
	}
	for i := range g.slots {
		s.evict(&g.slots[i])
	}
	s.gpus[id] = gpu{}
	s.alive--
	s.timers.Remove(uint32(id))
	kept := s.moved[:0]
	for _, w := range s.moved {
		least := now.Add(s.cfg.Delay.Of(1)).Add(s.models[w.model].profile.Latency(1))
		if s.alive == 0 || least > w.request.Deadline {
			s.drop(w.request, wire.ReasonBackendLost, out)
		} else {
			kept = append(kept, w)
		}
	}
	s.moved = kept
	s.install()
}

// evict moves what waits in a slot to moved.
func (s *Scheduler) evict(k *slot) {
	for k.queue.Len() > 0 {
		s.moved = append(s.moved, waiting{k.model, k.queue.Pop()})
	}
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	s.renew(now)
	s.requests++
	if int(id) >= len(s.models) {
		s.drop(r, wire.ReasonUnknownModel, out)
		return
	}
	s.models[id].arrivals++
	switch {
	case s.alive == 0:
		s.drop(r, wire.ReasonUnavailable, out)
	case s.requests > s.cfg.RequestsMax:
		s.drop(r, wire.ReasonFull, out)
	default:
		s.route(waiting{id, r})
	}
}

// Done implements policy.Scheduler.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	id := r.GPU
	s.requests -= len(r.Requests)
	s.ledger.End(r)
	s.done(&s.gpus[id], batch, end)
	s.arm(id)
}

// Step implements policy.Scheduler.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	s.renew(now)
	for s.NextWake() <= now {
		id, _ := s.timers.Min()
		s.serve(now, wire.GPUID(id), out)
	}
	invariants.Check(s.NextWake() > now, "nexus: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time {
	if s.timers.Len() == 0 {
		return mono.Never
	}
	_, at := s.timers.Min()
	return mono.Time(at)
}

func (s *Scheduler) drop(r batching.Request, reason wire.Reason, out *policy.Out) {
	s.requests--
	out.Drop(r, reason)
}

// route sends a request to a GPU, as its frontend would.
func (s *Scheduler) route(w waiting) {
	routes := s.models[w.model].routes
	k := &routes[s.frontends[w.request.Frontend].pick(w.model, routes)]
	s.gpus[k.gpu].push(k.slot, w.request)
	s.arm(k.gpu)
}
