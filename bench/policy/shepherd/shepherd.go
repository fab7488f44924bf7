package shepherd

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PreemptDefault is Shepherd's factor.
const PreemptDefault = 3

// Options of Shepherd.
type Options struct {
	// Preempt is how many times as large as a running batch a candidate must be
	// to preempt it, usually PreemptDefault; 0: never. So is 1: batches of one
	// size would preempt each other without end.
	Preempt int
}

// model is one model's waiting requests and its candidate.
type model struct {
	profile *profile.Profile // nil: no such model
	queue   policy.Queue
	size    int // of the candidate; 0: none
}

// gpu is one device.
type gpu struct {
	present bool
	batch   wire.BatchID // 0: idle
	size    int          // of the batch
}

// Scheduler is Shepherd's Flex.
type Scheduler struct {
	cfg    policy.Config
	opts   Options
	models []model
	gpus   []gpu
	ledger policy.Ledger

	candidates pq.Heap // model with a candidate -> the largest first
	shrinks    pq.Heap // model with requests -> last instant at which its candidate is in time
	idle       pq.Heap // idle GPU -> 0: the lowest id first
	victims    pq.Heap // busy GPU -> the smallest batch first

	present int       // GPUs
	waiting int       // requests in queues
	running int       // requests in batches
	seen    mono.Time // the last instant that a call brought
	sent    mono.Time // when the last batch was sent

	batch []batching.Request // scratch of dispatch
	lost  []batching.Request // scratch of preempt
}

var _ policy.Scheduler = (*Scheduler)(nil)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *Scheduler {
	return &Scheduler{cfg: cfg, opts: opts, seen: mono.Past, sent: mono.Past}
}

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, model{})
	}
	s.models[id].profile = m.Profile
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	s.seen = now
	known := int(id) < len(s.models) && s.models[id].profile != nil
	if !s.cfg.Admit(r, known, s.present, s.waiting+s.running, out) {
		return
	}
	s.waiting++
	s.models[id].queue.Push(r)
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
}

// Step implements policy.Scheduler. A preemption waits for the nanosecond after
// the last dispatch, so that no Out both sends a batch and ends it; a preemption
// sends more requests than it puts back, so this comes to an end.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	s.seen = now
	for s.shrinks.Len() > 0 {
		id, last := s.shrinks.Min()
		if mono.Time(last) >= now {
			break
		}
		s.refresh(now, wire.ModelID(id), out)
	}
	for s.candidates.Len() > 0 && s.idle.Len() > 0 {
		id, _ := s.candidates.Min()
		gpu, _ := s.idle.Min()
		s.idle.Remove(gpu)
		s.dispatch(now, wire.ModelID(id), wire.GPUID(gpu), out)
	}
	if now > s.sent && s.preemptable() {
		s.preempt(now, out)
	}
	invariants.Check(s.NextWake() > now, "shepherd: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time {
	wake := mono.Never
	if s.shrinks.Len() > 0 {
		_, last := s.shrinks.Min()
		wake = mono.Time(last).Add(1)
	}
	switch {
	case s.candidates.Len() > 0 && s.idle.Len() > 0:
		wake = min(wake, s.seen)
	case s.preemptable():
		wake = min(wake, max(s.seen, s.sent.Add(1)))
	}
	return wake
}

// dispatch sends the model's candidate to a GPU that has no batch.
func (s *Scheduler) dispatch(now mono.Time, id wire.ModelID, to wire.GPUID, out *policy.Out) {
	m := &s.models[id]
	b := m.size
	s.sent = now
	s.batch = s.batch[:0]
	for range b {
		s.batch = append(s.batch, m.queue.Pop())
	}
	s.waiting -= b
	s.running += b
	s.refresh(now, id, out)
	exec := now.Add(s.cfg.Delay.Of(b))
	until := exec.Add(m.profile.Latency(b))
	invariants.Check(until <= s.batch[0].Deadline, "shepherd: a batch that ends after its first deadline")
	r := s.ledger.Start(policy.Running{Model: id, GPU: to, Exec: exec, Until: until, Requests: s.batch}, out)
	s.gpus[to].batch, s.gpus[to].size = r.ID, b
	s.victims.Set(uint32(to), victimKey(b, exec))
}

// end forgets a batch; its GPU is in neither heap then. The record's requests
// stay valid until the next dispatch.
func (s *Scheduler) end(r *policy.Running) {
	s.ledger.End(r)
	s.running -= len(r.Requests)
	s.gpus[r.GPU].batch, s.gpus[r.GPU].size = 0, 0
	s.victims.Remove(uint32(r.GPU))
}
