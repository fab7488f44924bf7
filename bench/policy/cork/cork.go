package cork

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Options of the scheduler.
type Options struct {
	// Batches is how many batches a model may run at a time, its semaphore; 0: as
	// many as there are GPUs.
	Batches int
}

// model is one dispatcher.
type model struct {
	profile  *profile.Profile // nil: no such model
	perItem  mono.Dur         // a of l(n) = a*n + b
	queue    policy.Queue
	batches  int       // running
	youngest mono.Time // when the last request was queued
	waits    waits
}

// gpu is one device.
type gpu struct {
	present bool
	batch   wire.BatchID // 0: idle
}

// Scheduler is a dispatcher for each model, and the GPUs that they share.
// Invariant: a model with requests is in rejects, and in one of corked and
// released unless its batches are as many as it may run.
type Scheduler struct {
	cfg    policy.Config
	opts   Options
	models []model
	gpus   []gpu
	ledger policy.Ledger

	rejects  pq.Heap // model -> when its head is dropped
	corked   pq.Heap // model that waits for more requests -> until when
	released pq.Heap // model that takes the next idle GPU -> arrival of its head
	idle     pq.Heap // idle GPU -> 0: the lowest id first

	present int       // GPUs
	waiting int       // requests in queues
	running int       // requests in batches
	seen    mono.Time // the last instant that a call brought

	batch []batching.Request // scratch of dispatch
}

var _ policy.Scheduler = (*Scheduler)(nil)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *Scheduler {
	return &Scheduler{cfg: cfg, opts: opts, seen: mono.Past}
}

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, model{})
	}
	k := &s.models[id]
	k.profile = m.Profile
	if most := m.Profile.MaxBatch(); most > 1 {
		k.perItem = (m.Profile.Latency(most) - m.Profile.Latency(1)) / mono.Dur(most-1)
	}
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	s.seen = now
	known := int(id) < len(s.models) && s.models[id].profile != nil
	if !s.cfg.Admit(r, known, s.present, s.waiting+s.running, out) {
		return
	}
	s.push(now, id, r)
	s.refresh(now, id, out)
}

// Done implements policy.Scheduler.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	s.seen = now
	r := s.ledger.Find(batch)
	if r == nil {
		return
	}
	s.end(r)
	s.idle.Set(uint32(r.GPU), 0)
	s.refresh(now, r.Model, out)
}

// Step implements policy.Scheduler. Each turn drops a head, releases a model or
// sends a batch, so Step ends.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	s.seen = now
	for s.rejects.Len() > 0 {
		id, at := s.rejects.Min()
		if mono.Time(at) > now {
			break
		}
		s.refresh(now, wire.ModelID(id), out)
	}
	for s.corked.Len() > 0 {
		id, until := s.corked.Min()
		if mono.Time(until) > now {
			break
		}
		s.release(wire.ModelID(id))
	}
	for s.released.Len() > 0 && s.idle.Len() > 0 {
		id, _ := s.released.Min()
		to, _ := s.idle.Min()
		s.idle.Remove(to)
		s.dispatch(now, wire.ModelID(id), wire.GPUID(to), out)
	}
	invariants.Check(s.NextWake() > now, "cork: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time {
	wake := mono.Never
	for _, h := range []*pq.Heap{&s.rejects, &s.corked} {
		if h.Len() > 0 {
			_, at := h.Min()
			wake = min(wake, mono.Time(at))
		}
	}
	if s.released.Len() > 0 && s.idle.Len() > 0 {
		wake = min(wake, s.seen)
	}
	return wake
}

// dispatch sends what waits for the model to a GPU that has no batch.
func (s *Scheduler) dispatch(now mono.Time, id wire.ModelID, to wire.GPUID, out *policy.Out) {
	m := &s.models[id]
	b := min(m.queue.Len(), m.profile.MaxBatch())
	m.waits.add(now.Sub(m.queue.At(0).Arrival))
	s.batch = s.batch[:0]
	for range b {
		s.batch = append(s.batch, m.queue.Pop())
	}
	s.waiting -= b
	s.running += b
	m.batches++
	exec := now.Add(s.cfg.Delay.Of(b))
	until := exec.Add(m.profile.Latency(b))
	invariants.Check(until <= s.batch[0].Deadline, "cork: a batch that ends after its first deadline")
	r := s.ledger.Start(policy.Running{Model: id, GPU: to, Exec: exec, Until: until, Requests: s.batch}, out)
	s.gpus[to].batch = r.ID
	s.refresh(now, id, out)
}

// end forgets a batch; its GPU is not idle yet. The record's requests stay valid
// until the next dispatch.
func (s *Scheduler) end(r *policy.Running) {
	s.ledger.End(r)
	s.running -= len(r.Requests)
	s.models[r.Model].batches--
	s.gpus[r.GPU].batch = 0
}

func (s *Scheduler) push(now mono.Time, id wire.ModelID, r batching.Request) {
	m := &s.models[id]
	s.waiting++
	m.queue.Push(r)
	m.youngest = now
}
