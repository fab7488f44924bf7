package shard

import (
	"slices"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Config of a Shard.
type Config struct {
	Index       int // which shard this is, 0 to 255: part of its batch ids
	RequestsMax int // requests queued or running at a time
	BatchesMax  int // batches running at a time, at most 65,536
	// Serial is where the serials of batch ids begin, of which 40 bits count: a shard with the
	// index of one before it begins beyond that one's.
	Serial uint64
}

// ModelConfig of one model. Margin is taken off each deadline: for the way of
// the answer back and for what no profile foresees.
type ModelConfig struct {
	batching.Config
	Margin mono.Dur
}

// model is one model of the shard.
type model struct {
	margin   mono.Dur
	informed batching.Candidate // what the rank was told last
	stirred  bool               // requests came since its candidate was formed
	batching.Model
	effort effort // last: what each request touches lies together
}

// Shard is the models of one loop.
type Shard struct {
	slots   slots
	batches batches
	models  []*model       // by id; nil: not served. Ids are sparse: a cluster has more than an engine
	moved   ids            // models that Extract ended: what comes for them goes on
	gpus    int            // GPUs alive: without one, requests are answered at once
	share   batching.Share // GPUs that one model can count on
	delay   batching.Delay
	setting batching.Setting
	hastens bool    // nothing is deferred any more
	wakes   pq.Heap // model -> NextWake
	dead    []rank.Life
	stirred []wire.ModelID     // models whose candidates Settle forms; some may have been formed since
	taken   []uint32           // scratch of Granted
	dropped []batching.Dropped // scratch
}

// New makes a Shard without models.
func New(cfg Config) *Shard {
	return &Shard{slots: newSlots(cfg.RequestsMax), batches: newBatches(cfg.Index, cfg.BatchesMax, cfg.Serial)}
}

// AddModel begins to serve a model; its id costs a pointer for each smaller one. A model that is served
// already gets the new configuration and keeps its queue. Share and Delay of
// cfg do not count: SetGPUs and SetDelay hold for all models.
func (s *Shard) AddModel(id wire.ModelID, cfg ModelConfig) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, nil)
	}
	s.moved.remove(uint32(id))
	cfg.Share, cfg.Delay = s.share, s.delay
	if s.hastens {
		cfg.Window = batching.WindowEager
	}
	if m := s.model(id); m != nil {
		m.SetConfig(cfg.Config)
		m.margin, m.effort.most = cfg.Margin, cfg.QueueMax
		return
	}
	s.models[id] = &model{Model: *batching.NewModel(cfg.Config), margin: cfg.Margin, effort: effort{most: cfg.QueueMax}}
	s.models[id].SetSetting(s.setting)
}

// RemoveModel ends a model: its waiting requests are dropped for reason.
// Batches that run are left to end.
func (s *Shard) RemoveModel(id wire.ModelID, reason wire.Reason, out *Out) {
	s.moved.remove(uint32(id))
	if m := s.model(id); m != nil {
		s.dropAll(m, reason, out)
		s.end(id, m, out)
	}
}

// end forgets a model without requests, and takes its candidate back.
func (s *Shard) end(id wire.ModelID, m *model, out *Out) {
	s.wakes.Remove(uint32(id))
	if m.informed.Size > 0 {
		out.Candidates = append(out.Candidates, Candidate{Model: id})
	}
	s.wish(id, m, out)
	s.models[id] = nil
}

// DropAll empties every queue for reason, when the process shuts down.
func (s *Shard) DropAll(now mono.Time, reason wire.Reason, out *Out) {
	for i := range s.models {
		if m := s.model(wire.ModelID(i)); m != nil {
			s.dropAll(m, reason, out)
			s.wish(wire.ModelID(i), m, out)
			s.update(now, wire.ModelID(i), out)
		}
	}
}

func (s *Shard) dropAll(m *model, reason wire.Reason, out *Out) {
	for {
		slot, ok := m.PopAny()
		if !ok {
			break
		}
		s.drop(slot, reason, out)
	}
	s.dropEffort(m, reason, out)
}

// Submit queues a request and forms its model's candidate. It is refused, in
// Drops, when the model is not served, no GPU is there, or the queue or the
// slots are full.
func (s *Shard) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *Out) {
	s.Enqueue(now, now, id, &r, out)
	s.Settle(now, out)
}

// Enqueue is Submit without the candidate, which Settle forms: of many requests
// that were there at the same instant a model gets one candidate, not as many
// as there are requests, of which none but the last would matter. came is when the
// request was there; it decides nothing (batching.Model.Due).
func (s *Shard) Enqueue(now, came mono.Time, id wire.ModelID, r *batching.Request, out *Out) {
	m := s.model(id)
	reason := wire.ReasonNone
	switch {
	case m == nil && s.moved.has(uint32(id)):
		out.Moved = append(out.Moved, Moved{Model: id, Came: came, Request: *r})
		return
	case m == nil:
		reason = wire.ReasonUnknownModel
	case s.gpus == 0:
		reason = wire.ReasonUnavailable
	case r.Class == wire.ClassBestEffort:
		s.enqueueEffort(now, came, id, m, r, out)
		return
	}
	if reason == wire.ReasonNone {
		slot, ok := s.slots.take(r, came)
		if ok && m.Push(now, r.Deadline.Add(-m.margin), r.Priority, slot) {
			m.Came(came)
			if !m.stirred {
				m.stirred = true
				s.stirred = append(s.stirred, id)
			}
			return
		}
		if ok {
			s.slots.give(slot)
		}
		reason = wire.ReasonFull
	}
	out.Drops = append(out.Drops, batching.Drop{Request: *r, Came: came, Reason: reason})
}

// Settle forms the candidates of the models that requests were queued for.
func (s *Shard) Settle(now mono.Time, out *Out) {
	for _, id := range s.stirred {
		if m := s.models[id]; m != nil && m.stirred {
			s.update(now, id, out)
		}
	}
	s.stirred = s.stirred[:0]
}

// Granted answers a grant: with a batch, or with the GPU unused when nothing
// waits that it could serve. (granted_gpu)
func (s *Shard) Granted(now mono.Time, g rank.Grant, out *Out) {
	m := s.model(g.Model)
	answer := rank.Answer{Grant: g}
	if m != nil && !s.isDead(g.GPU, g.Life) && s.batches.room() {
		var exec mono.Time
		due, deferred := m.Due()
		s.taken, s.dropped, exec = m.Take(now, g.Offer, s.taken[:0], s.dropped[:0])
		s.dropAppend(out)
		if n := len(s.taken); n > 0 {
			until := exec.Add(m.Profile().Latency(n))
			if !deferred {
				due = min(due, s.lastCame())
			}
			answer.Batch, answer.Exec, answer.Until = s.dispatch(g, max(due, g.Ready), exec, until, out), exec, until
			answer.Forgone, answer.Need, answer.Slack, answer.Each = m.Forgone(), m.Need(), m.Slack(), m.Each()
			if g.Generation != 0 {
				d := &out.Dispatches[len(out.Dispatches)-1]
				d.Generation, d.Latest = g.Generation, earliest(d.Requests).Add(-m.Profile().Latency(n))
			}
		}
	}
	out.Answers = append(out.Answers, answer)
	if m != nil {
		s.update(now, g.Model, out)
		s.inform(g.Model, m, out, true) // the rank dropped what it knew when it granted
	}
}

// earliest is the first deadline. The requests are in the order of their deadlines less the margin that the model had when each
// came: where that has fallen, a later one may be due before the first.
func earliest(requests []batching.Request) mono.Time {
	at := mono.Never
	for i := range requests {
		at = min(at, requests[i].Deadline)
	}
	return at
}

// lastCame is when the last of the taken requests was handed in.
func (s *Shard) lastCame() mono.Time {
	last := mono.Past
	for _, slot := range s.taken {
		last = max(last, *s.slots.came(slot))
	}
	return last
}

// dispatch records the batch of the taken slots.
func (s *Shard) dispatch(g rank.Grant, due, exec, until mono.Time, out *Out) wire.BatchID {
	b := s.batches.take()
	b.model, b.gpu, b.life, b.exec, b.until, b.size = g.Model, g.GPU, g.Life, exec, until, len(s.taken)
	b.first = none
	for i := len(s.taken) - 1; i >= 0; i-- {
		s.slots.next[s.taken[i]], b.first = b.first, s.taken[i]
	}
	// Room first, then each request from its slot to its place: appended one by one they go by way
	// of the stack, and the slice's end through memory, which costs a third more.
	from, n := len(out.requests), len(s.taken)
	out.requests = slices.Grow(out.requests, n)[:from+n]
	requests := out.requests[from : from+n : from+n]
	for i, slot := range s.taken {
		requests[i] = *s.slots.request(slot)
	}
	out.Dispatches = append(out.Dispatches, Dispatch{Batch: b.id, Model: b.model, GPU: b.gpu, Life: b.life,
		Due: due, Exec: exec, Until: until, Latest: mono.Never, Requests: requests})
	return b.id
}

// Run is what Completed says of the batch that ended.
type Run struct {
	Model       wire.ModelID
	GPU         wire.GPUID
	Life        rank.Life
	Size        int
	Exec, Until mono.Time
}

// Completed forgets a batch: its backend answered its requests. False when
// the id is not that of a running batch (a late report of a lost GPU).
func (s *Shard) Completed(id wire.BatchID) (Run, bool) {
	b := s.batches.find(id)
	if b == nil {
		return Run{}, false
	}
	run := Run{b.model, b.gpu, b.life, b.size, b.exec, b.until}
	for slot := b.first; slot != none; {
		next := s.slots.next[slot]
		s.slots.give(slot)
		slot = next
	}
	s.batches.give(b)
	return run, true
}

// Refused is Completed of a batch that its backend answered no request of: they are queued again, or dropped
// for reason when too little time is left.
func (s *Shard) Refused(now mono.Time, id wire.BatchID, reason wire.Reason, out *Out) (Run, bool) {
	b := s.batches.find(id)
	if b == nil {
		return Run{}, false
	}
	run := Run{b.model, b.gpu, b.life, b.size, b.exec, b.until}
	s.requeue(now, b, reason, out)
	return run, true
}

// Lost ends the life of a GPU: the requests of its batches are queued again,
// or dropped as backend_lost when too little time is left. O(batches).
func (s *Shard) Lost(now mono.Time, gpu wire.GPUID, life rank.Life, out *Out) {
	for int(gpu) >= len(s.dead) {
		s.dead = append(s.dead, 0)
	}
	s.dead[gpu] = max(s.dead[gpu], life)
	for i := range s.batches.records {
		b := &s.batches.records[i]
		if b.id != 0 && b.gpu == gpu && b.life <= life {
			s.requeue(now, b, wire.ReasonBackendLost, out)
		}
	}
}

// requeue puts the requests of a batch that does not run back. Those of a model that was extracted go where
// it went.
func (s *Shard) requeue(now mono.Time, b *batch, reason wire.Reason, out *Out) {
	m := s.model(b.model)
	for slot := b.first; slot != none; {
		next := s.slots.next[slot]
		r := *s.slots.request(slot)
		if m == nil && s.moved.has(uint32(b.model)) {
			out.Moved = append(out.Moved, Moved{Model: b.model, Came: now, Request: r})
			s.slots.give(slot)
			slot = next
			continue
		}
		alone := mono.Never
		if m != nil && s.gpus > 0 {
			delay := m.Delay()
			alone = now.Add(delay.Of(1) + m.Profile().Latency(1) + m.margin)
		}
		*s.slots.came(slot) = now
		if r.Class == wire.ClassBestEffort {
			s.requeueEffort(now, m, slot, out)
		} else if alone > r.Deadline || !m.Push(now, r.Deadline.Add(-m.margin), r.Priority, slot) {
			s.drop(slot, reason, out)
		}
		slot = next
	}
	id := b.model
	s.batches.give(b)
	if m != nil {
		s.wish(id, m, out)
		s.update(now, id, out)
	}
}

func (s *Shard) isDead(gpu wire.GPUID, life rank.Life) bool {
	return int(gpu) < len(s.dead) && life <= s.dead[gpu]
}

// SetGPUs tells how many GPUs are alive and how many of them one model can
// count on (its share). With none, what waits is dropped.
func (s *Shard) SetGPUs(now mono.Time, n int, share batching.Share, out *Out) {
	s.gpus, s.share = n, share
	for i := range s.models {
		m := s.model(wire.ModelID(i))
		if m == nil {
			continue
		}
		m.SetShare(share)
		if n == 0 {
			s.dropAll(m, wire.ReasonUnavailable, out)
			s.wish(wire.ModelID(i), m, out)
		}
		s.update(now, wire.ModelID(i), out)
	}
}

// SetModel replaces the configuration of a model that is served, but for its share and
// delay, and keeps its queue and margin.
func (s *Shard) SetModel(now mono.Time, id wire.ModelID, cfg batching.Config, out *Out) {
	if m := s.model(id); m != nil {
		cfg.Share, cfg.Delay = s.share, s.delay
		if s.hastens {
			cfg.Window = batching.WindowEager
		}
		m.SetConfig(cfg)
		s.update(now, id, out)
	}
}

// SetWindow replaces a model's rule for exec.
func (s *Shard) SetWindow(now mono.Time, id wire.ModelID, w batching.Window, out *Out) {
	if m := s.model(id); m != nil {
		m.SetWindow(w)
		s.update(now, id, out)
	}
}

// Hasten ends the deferral for good: what waits, and what still comes, starts as soon as
// there is a GPU, any GPU. For a scheduler that drains: whoever waits for it to end gains
// nothing by larger batches. Best effort is refused, for it could wait for long.
func (s *Shard) Hasten(now mono.Time, out *Out) {
	s.hastens = true
	for i := range s.models {
		s.SetWindow(now, wire.ModelID(i), batching.WindowEager, out)
		if m := s.models[i]; m != nil {
			s.dropEffort(m, wire.ReasonDraining, out)
			s.wish(wire.ModelID(i), m, out)
		}
	}
}

// SetSetting changes how much of the deferral all models spend.
func (s *Shard) SetSetting(now mono.Time, set batching.Setting, out *Out) {
	s.setting = set
	for i := range s.models {
		if m := s.model(wire.ModelID(i)); m != nil {
			m.SetSetting(set)
			s.update(now, wire.ModelID(i), out)
		}
	}
}

// Margin is what is taken off the deadlines of the model's requests; false where it is not served.
func (s *Shard) Margin(id wire.ModelID) (mono.Dur, bool) {
	if m := s.model(id); m != nil {
		return m.margin, true
	}
	return 0, false
}

// SetMargin replaces a model's margin, for requests yet to come.
func (s *Shard) SetMargin(id wire.ModelID, margin mono.Dur) {
	if m := s.model(id); m != nil {
		m.margin = margin
	}
}

// SetDelay replaces the network's delay bound for all models.
func (s *Shard) SetDelay(now mono.Time, d batching.Delay, out *Out) {
	s.delay = d
	for i := range s.models {
		if m := s.model(wire.ModelID(i)); m != nil {
			m.SetDelay(d)
			s.update(now, wire.ModelID(i), out)
		}
	}
}

// SetFloor says that no GPU can start the model before t (batching.Model.SetFloor). A model
// that begins to be served has no floor.
func (s *Shard) SetFloor(now mono.Time, id wire.ModelID, t mono.Time, out *Out) {
	if m := s.model(id); m != nil {
		m.SetFloor(t)
		s.update(now, id, out)
	}
}

// Wake forms the candidates anew whose time has passed; call it at NextWake.
func (s *Shard) Wake(now mono.Time, out *Out) {
	for s.wakes.Len() > 0 {
		id, at := s.wakes.Min()
		if at > int64(now) {
			return
		}
		s.update(now, wire.ModelID(id), out)
	}
}

// NextWake is when Wake must be called; Never when no candidate stands.
func (s *Shard) NextWake() mono.Time {
	if s.wakes.Len() == 0 {
		return mono.Never
	}
	_, at := s.wakes.Min()
	return mono.Time(at)
}

// Queued is the number of requests that wait for a batch in the model's queue;
// Used those that hold a slot in the whole shard.
func (s *Shard) Queued(id wire.ModelID) int {
	if m := s.model(id); m != nil {
		return m.Len()
	}
	return 0
}

// Alone is by when the first of those requests must start if it runs alone, and how long it then takes.
func (s *Shard) Alone(id wire.ModelID) (latest mono.Time, length mono.Dur) {
	if m := s.model(id); m != nil {
		length = m.Profile().Latency(1)
		return m.First().Add(-length), length
	}
	return mono.Never, 0
}

// Used is the number of requests queued or running.
func (s *Shard) Used() int { return s.slots.used }

// model is the model if it is served, else nil.
func (s *Shard) model(id wire.ModelID) *model {
	if int(id) >= len(s.models) {
		return nil
	}
	return s.models[id]
}

// update forms the model's candidate, arms its timer, and informs the rank.
func (s *Shard) update(now mono.Time, id wire.ModelID, out *Out) {
	m := s.models[id]
	m.stirred = false
	s.dropped = m.Update(now, s.dropped[:0])
	s.dropAppend(out)
	if wake := m.NextWake(); wake == mono.Never {
		s.wakes.Remove(uint32(id))
	} else {
		s.wakes.Set(uint32(id), int64(wake))
	}
	s.inform(id, m, out, false)
}

// inform appends the candidate if the rank does not know it. An Out has at
// most one entry for a model when it is drained after each call, but for Lost, where
// the last one counts.
func (s *Shard) inform(id wire.ModelID, m *model, out *Out, always bool) {
	c := m.Candidate()
	if c == m.informed && !always {
		return
	}
	m.informed = c
	if n := len(out.Candidates); n > 0 && out.Candidates[n-1].Model == id {
		out.Candidates[n-1].Candidate = c
		return
	}
	out.Candidates = append(out.Candidates, Candidate{id, c})
}

func (s *Shard) dropAppend(out *Out) {
	for _, d := range s.dropped {
		s.drop(d.Slot, d.Reason, out)
	}
}

func (s *Shard) drop(slot uint32, reason wire.Reason, out *Out) {
	out.Drops = append(out.Drops, batching.Drop{Request: *s.slots.request(slot), Came: *s.slots.came(slot), Reason: reason})
	s.slots.give(slot)
}
