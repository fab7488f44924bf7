package clockwork

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/estimate"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PagedOptions choose a reading of the paper's whole scheduler.
type PagedOptions struct {
	BatchSizes BatchSizes     // Arbitrary or PowersOfTwo, the paper's
	Heads      Heads          // OldestRequest, or EveryRequest, the paper's
	Rule       residency.Rule // what is loaded; residency.ByPriority is the paper's
	// Reserve is taken off each SLO, as far as Lookahead + Reserve are left of it. Clockwork's
	// code has 5 ms.
	Reserve mono.Dur
	// Hope, if above 0, is how long after its arrival a request still counts in choosing what
	// to load. Clockwork's code has 25 ms; the paper has no such bound.
	Hope mono.Dur
}

// Whole is the paper's: powers of two, each request heads, LOADs by priority, 5 ms off
// each SLO.
func Whole() PagedOptions {
	return PagedOptions{BatchSizes: PowersOfTwo, Heads: EveryRequest, Rule: residency.ByPriority, Reserve: 5 * mono.Millisecond, Hope: 25 * mono.Millisecond}
}

// pagedModel is one model's waiting requests, and where it can run.
type pagedModel struct {
	profile *profile.Profile // nil: no such model
	queue   policy.Queue
	took    []mono.Dur   // size number i -> what it is planned to take: the p99 of its last runs
	on      []wire.GPUID // GPUs on which it is resident
}

// pagedGPU is one device, its batches, and the models with requests that it could run.
type pagedGPU struct {
	gpu
	ready []wire.ModelID // in no order
	place []int32        // model -> index in ready plus 1; 0: it is not there
}

// Paged is Clockwork's controller with its loading of models. doc.go tells how it differs
// from Scheduler.
type Paged struct {
	cfg    policy.Config
	opts   PagedOptions
	models []pagedModel
	gpus   []pagedGPU
	ledger policy.Ledger
	memory *residency.Residency
	times  estimate.Table // of executions

	free    pq.Heap // GPU -> when it is free; those alone that may find something to run
	chances pq.Heap // model -> last instant at which an order for its first request alone is in time

	present int // GPUs
	waiting int // requests in queues
	running int // requests in batches

	batch []batching.Request // scratch of dispatch
	ids   []wire.BatchID     // scratch of RemoveGPU
	moves residency.Out      // scratch
}

var (
	_ policy.Loader = (*Paged)(nil)
	_ policy.Timed  = (*Paged)(nil)
)

// NewPaged makes a Paged without models or GPUs. cfg.Pages must be above 0.
func NewPaged(cfg policy.Config, opts PagedOptions) *Paged {
	return &Paged{cfg: cfg, opts: opts, memory: residency.New(residency.Config{Rule: opts.Rule})}
}

// AddModel implements policy.Scheduler.
func (s *Paged) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, pagedModel{})
	}
	k := &s.models[id]
	k.profile = m.Profile
	for i := 0; s.size(i) <= m.Profile.MaxBatch(); i++ {
		b := s.size(i)
		k.took = append(k.took, m.Profile.Latency(b))
		s.times.Seed(estimate.Key{Model: id, Size: b}, m.Profile.Latency(b))
	}
	s.memory.AddModel(id, residency.Model{Pages: m.Pages, LoadTime: m.LoadTime})
}

// size is batch size number i, from 0.
func (s *Paged) size(i int) int {
	if s.opts.BatchSizes == PowersOfTwo {
		return 1 << i
	}
	return i + 1
}

// Submit implements policy.Scheduler.
func (s *Paged) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	known := int(id) < len(s.models) && s.models[id].profile != nil
	if !s.cfg.Admit(r, known, s.present, s.waiting+s.running, out) {
		return
	}
	least := min(r.Deadline, now.Add(lookahead+s.opts.Reserve))
	r.Deadline = max(r.Deadline.Add(-s.opts.Reserve), least)
	s.push(now, id, r)
	s.expire(now, id, out)
}

// Step implements policy.Scheduler. Each turn of the last loop takes a request out of a
// queue or a GPU out of the heap, so Step ends.
func (s *Paged) Step(now mono.Time, out *policy.Out) {
	for s.chances.Len() > 0 {
		id, last := s.chances.Min()
		if mono.Time(last) >= now {
			break
		}
		s.expire(now, wire.ModelID(id), out)
	}
	if s.memory.NextWake() <= now {
		s.memory.Step(now, &s.moves)
		s.move(now, out)
	}
	for s.free.Len() > 0 {
		id, free := s.free.Min()
		if mono.Time(free).Add(-lookahead) > now {
			break
		}
		if s.gpus[id].overdue(now) || !s.feed(now, wire.GPUID(id), out) {
			s.free.Remove(id)
		}
	}
	if s.memory.NextWake() <= now { // what has begun to run makes room for demand elsewhere
		s.memory.Step(now, &s.moves)
		s.move(now, out)
	}
	invariants.Check(s.NextWake() > now, "clockwork: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Paged) NextWake() mono.Time {
	wake := s.memory.NextWake()
	if s.chances.Len() > 0 {
		_, last := s.chances.Min()
		wake = min(wake, mono.Time(last).Add(1))
	}
	if s.free.Len() > 0 {
		_, free := s.free.Min()
		wake = min(wake, mono.Time(free).Add(-lookahead))
	}
	return wake
}

// feed gives the GPU the eligible strategy that is due first. It tells whether there was one.
func (s *Paged) feed(now mono.Time, id wire.GPUID, out *policy.Out) bool {
	g := &s.gpus[id]
	first, of := strategy{due: mono.Never}, wire.ModelID(0)
	for _, m := range g.ready {
		k := &s.models[m]
		// No strategy of the model is due before its largest one headed by its first request.
		n := s.sizes(k)
		if due := k.queue.Deadline(0).Add(-k.took[n-1]); due > first.due || due == first.due && m > of {
			continue
		}
		if k := s.strategyOf(k, n, now, g.free); k.size > 0 && (k.due < first.due || k.due == first.due && m < of) {
			first, of = k, m
		}
	}
	if first.size == 0 {
		return false
	}
	s.dispatch(now, id, of, first, out)
	return true
}

// sizes is how many of the model's batch sizes are not above what waits: 1 at least.
func (s *Paged) sizes(m *pagedModel) int {
	n := len(m.took)
	for n > 1 && s.size(n-1) > m.queue.Len() {
		n--
	}
	return n
}

// strategyOf is the model's eligible strategy that is due first, of its first n sizes, on a
// GPU that is free then. Size 0: it has none.
func (s *Paged) strategyOf(m *pagedModel, n int, now, free mono.Time) strategy {
	for i := n - 1; i >= 0; i-- {
		b, skip := s.size(i), 0
		end := s.start(b, now, free).Add(m.took[i])
		if m.queue.Deadline(0) < end {
			if s.opts.Heads == OldestRequest {
				continue
			}
			if skip = m.queue.Below(end); m.queue.Len()-skip < b {
				continue
			}
		}
		return strategy{size: b, skip: skip, due: m.queue.Deadline(skip).Add(-m.took[i])}
	}
	return strategy{}
}

// dispatch sends the strategy's batch.
func (s *Paged) dispatch(now mono.Time, id wire.GPUID, of wire.ModelID, k strategy, out *policy.Out) {
	m, g := &s.models[of], &s.gpus[id]
	for range k.skip {
		out.Drop(s.pop(m), wire.ReasonShed)
	}
	if k.skip > 0 {
		s.memory.Doomed(now, of, k.skip)
	}
	s.batch = s.batch[:0]
	for range k.size {
		s.batch = append(s.batch, s.pop(m))
	}
	s.running += k.size
	s.retime(of)
	exec := s.start(k.size, now, g.free)
	until := exec.Add(m.took[s.number(k.size)])
	r := s.ledger.Start(policy.Running{Model: of, GPU: id, Exec: exec, Until: until, Requests: s.batch}, out)
	gen := s.memory.Began(now, of, id, k.size)
	invariants.Check(gen != 0, "clockwork: a batch on a GPU that has not its model")
	g.add(r.ID, exec, until)
	s.wake(id)
}

// number is the reverse of size.
func (s *Paged) number(b int) int {
	i := 0
	for s.size(i) < b {
		i++
	}
	return i
}

func (s *Paged) pop(m *pagedModel) batching.Request {
	s.waiting--
	return m.queue.Pop()
}

// expire drops the first requests of a model for which even an order of one comes too late.
func (s *Paged) expire(now mono.Time, id wire.ModelID, out *policy.Out) {
	m, n := &s.models[id], 0
	alone := now.Add(s.cfg.Delay.Of(1)).Add(m.took[0])
	for m.queue.Len() > 0 && m.queue.Deadline(0) < alone {
		out.Drop(s.pop(m), wire.ReasonDeadline)
		n++
	}
	if n > 0 {
		s.memory.Doomed(now, id, n)
	}
	s.retime(id)
}

// start is when a batch of size b can start on a GPU that is free then.
func (s *Paged) start(b int, now, free mono.Time) mono.Time {
	return max(now.Add(s.cfg.Delay.Of(b)), free)
}

// push queues a request: the memory has one more to load for, the GPUs with its model to run.
func (s *Paged) push(now mono.Time, id wire.ModelID, r batching.Request) {
	m := &s.models[id]
	s.waiting++
	m.queue.Push(r)
	s.memory.Arrive(now, id, s.memory.Weigh(m.took[0], r.Deadline.Sub(now)), s.hope(now, id, r.Deadline))
	for _, g := range m.on {
		s.gpus[g].offer(id)
		s.wake(g)
	}
}

// hope is the latest start of a request's batch that is reckoned with in choosing what to
// load: a GPU that has the weights by then may have its lookahead of work before it. A load that begins
// within a lookahead and the reserve of the arrival is always reckoned with.
func (s *Paged) hope(now mono.Time, id wire.ModelID, deadline mono.Time) mono.Time {
	latest := deadline.Add(-s.models[id].took[0] - lookahead)
	if s.opts.Hope > 0 {
		latest = min(latest, now.Add(s.opts.Hope+s.memory.LoadTime(id)))
	}
	return max(latest, now.Add(lookahead+s.opts.Reserve+s.memory.LoadTime(id)))
}

// retime sets the model's place in chances, and on its GPUs, after its queue has changed.
func (s *Paged) retime(id wire.ModelID) {
	m := &s.models[id]
	if m.queue.Len() > 0 {
		s.chances.Set(uint32(id), int64(m.queue.Deadline(0).Add(-m.took[0]-s.cfg.Delay.Of(1))))
		return
	}
	s.chances.Remove(uint32(id))
	for _, g := range m.on {
		s.gpus[g].withdraw(id)
	}
}

// wake has the GPU look for something to run when it has less than the lookahead of work.
func (s *Paged) wake(id wire.GPUID) {
	if g := &s.gpus[id]; len(g.ready) > 0 {
		s.free.Set(uint32(id), int64(g.free))
	} else {
		s.free.Remove(uint32(id))
	}
}
