package clockwork

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// lookahead is how much work a GPU has before it: Clockwork's 5 ms.
const lookahead = 5 * mono.Millisecond

// model is one model's waiting requests.
type model struct {
	profile *profile.Profile // nil: no such model
	queue   policy.Queue
}

// Scheduler is Clockwork's controller without its loading of models.
type Scheduler struct {
	cfg    policy.Config
	opts   Options
	models []model
	gpus   []gpu
	ledger policy.Ledger

	free    pq.Heap // GPU -> when it is free; without those that are gone or overdue
	chances pq.Heap // model -> last instant at which an order for its first request alone is in time

	present int // GPUs
	waiting int // requests in queues
	running int // requests in batches

	batch []batching.Request // scratch of dispatch
	ids   []wire.BatchID     // scratch of RemoveGPU
}

var _ policy.Scheduler = (*Scheduler)(nil)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *Scheduler { return &Scheduler{cfg: cfg, opts: opts} }

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, model{})
	}
	s.models[id].profile = m.Profile
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	known := int(id) < len(s.models) && s.models[id].profile != nil
	if !s.cfg.Admit(r, known, s.present, s.waiting+s.running, out) {
		return
	}
	s.push(id, r)
	s.expire(now, mono.Past, id, out)
}

// Step implements policy.Scheduler. The GPU that is free first is fed until it
// has its lookahead; when it has, so have the others. Each turn takes a request
// out of a queue or a GPU out of the heap, so Step ends.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	for s.chances.Len() > 0 {
		id, last := s.chances.Min()
		if mono.Time(last) >= now {
			break
		}
		s.expire(now, mono.Past, wire.ModelID(id), out)
	}
	for s.waiting > 0 && s.free.Len() > 0 {
		id, free := s.free.Min()
		if mono.Time(free).Add(-lookahead) > now {
			break
		}
		if s.gpus[id].overdue(now) {
			s.free.Remove(id)
			continue
		}
		s.feed(now, wire.GPUID(id), out)
	}
	invariants.Check(s.NextWake() > now, "clockwork: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time {
	wake := mono.Never
	if s.chances.Len() > 0 {
		_, last := s.chances.Min()
		wake = mono.Time(last).Add(1)
	}
	if s.waiting > 0 && s.free.Len() > 0 {
		_, free := s.free.Min()
		wake = min(wake, mono.Time(free).Add(-lookahead))
	}
	return wake
}

// feed gives the GPU the strategy that is due first. What this GPU cannot
// serve in time is dropped on the way: no other one is free earlier.
func (s *Scheduler) feed(now mono.Time, id wire.GPUID, out *policy.Out) {
	free := s.gpus[id].free
	first, of := strategy{due: mono.Never}, wire.ModelID(0)
	for i := range s.models {
		m := &s.models[i]
		if m.queue.Len() == 0 {
			continue
		}
		s.expire(now, free, wire.ModelID(i), out)
		if k := s.strategyOf(m, now, free); k.size > 0 && k.due < first.due {
			first, of = k, wire.ModelID(i)
		}
	}
	if first.size > 0 {
		s.dispatch(now, id, of, first, out)
	}
}

// dispatch sends the strategy's batch.
func (s *Scheduler) dispatch(now mono.Time, id wire.GPUID, of wire.ModelID, k strategy, out *policy.Out) {
	m, g := &s.models[of], &s.gpus[id]
	for range k.skip {
		s.waiting--
		out.Drop(m.queue.Pop(), wire.ReasonShed)
	}
	s.batch = s.batch[:0]
	for range k.size {
		s.batch = append(s.batch, m.queue.Pop())
	}
	s.waiting -= k.size
	s.running += k.size
	s.retime(of)
	exec := s.start(k.size, now, g.free)
	until := exec.Add(m.profile.Latency(k.size))
	invariants.Check(until <= s.batch[0].Deadline, "clockwork: a batch that ends after its first deadline")
	r := s.ledger.Start(policy.Running{Model: of, GPU: id, Exec: exec, Until: until, Requests: s.batch}, out)
	g.add(r.ID, exec, until)
	s.place(id)
}

// expire drops the first requests of a model that cannot make it alone, on a
// GPU that is free then.
func (s *Scheduler) expire(now, free mono.Time, id wire.ModelID, out *policy.Out) {
	m := &s.models[id]
	alone := s.start(1, now, free).Add(m.profile.Latency(1))
	for m.queue.Len() > 0 && m.queue.Deadline(0) < alone {
		s.waiting--
		out.Drop(m.queue.Pop(), wire.ReasonDeadline)
	}
	s.retime(id)
}

// start is when a batch of size b can start on a GPU that is free then.
func (s *Scheduler) start(b int, now, free mono.Time) mono.Time {
	return max(now.Add(s.cfg.Delay.Of(b)), free)
}

// push queues a request.
func (s *Scheduler) push(id wire.ModelID, r batching.Request) {
	s.waiting++
	s.models[id].queue.Push(r)
}

// retime sets the model's place in chances after its queue has changed.
func (s *Scheduler) retime(id wire.ModelID) {
	m := &s.models[id]
	if m.queue.Len() == 0 {
		s.chances.Remove(uint32(id))
		return
	}
	s.chances.Set(uint32(id), int64(m.queue.Deadline(0).Add(-m.profile.Latency(1)-s.cfg.Delay.Of(1))))
}
