package deferred

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/devices"
	"github.com/symphony-serving/symphony/scheduler/gaps"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/paged"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/scheduler/residency"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// PagedOptions are Options where GPUs have pages.
type PagedOptions struct {
	Policy    batching.Policy
	Setting   batching.Setting
	Deferred  bool // not paged.Config.Eager: what a limited headroom is
	NoLead    bool // as paged.Config has it
	NoCrowd   bool // likewise
	Residency residency.Config
}

// Paged is one shard and one matchmaker of GPUs whose memory is a cache of weights: what is
// deferred is loaded meanwhile.
type Paged struct {
	cfg    policy.Config
	opts   PagedOptions
	shard  *shard.Shard
	match  *paged.Paged
	models []pagedModel // by id
	served int
	lives  []devices.Life // GPU -> its life; 0: gone
	told   []mono.Time    // GPU -> when its last report came
	out    shard.Out
	orders paged.Out
	grants []devices.Grant // scratch of Step
	fills  []gaps.Grant    // likewise
}

// pagedModel is what the shard does not tell.
type pagedModel struct {
	profile *profile.Profile // nil: not served
	first   mono.Time        // latest start of its first request alone, by its last candidate
}

var (
	_ policy.Loader   = (*Paged)(nil)
	_ policy.Measured = (*Paged)(nil)
)

// NewPaged makes a Paged without models or GPUs. cfg.Pages must be above 0.
func NewPaged(cfg policy.Config, opts PagedOptions) *Paged {
	s := &Paged{cfg: cfg, opts: opts, shard: shard.New(shard.Config{RequestsMax: cfg.RequestsMax, BatchesMax: batchesMax}),
		match: paged.New(paged.Config{ByLatest: opts.Setting.ByLatest, Eager: !opts.Deferred, NoLead: opts.NoLead, NoCrowd: opts.NoCrowd, Residency: opts.Residency})}
	s.shard.SetSetting(mono.Past, opts.Setting, &s.out)
	s.shard.SetDelay(mono.Past, cfg.Delay, &s.out)
	return s
}

// Residency is whose weights are where, to look at.
func (s *Paged) Residency() *residency.Residency { return s.match.Residency() }

// SetDelay implements policy.Measured.
func (s *Paged) SetDelay(now mono.Time, d batching.Delay, out *policy.Out) {
	s.shard.SetDelay(now, d, &s.out)
	s.apply(now, out)
}

// AddModel implements policy.Scheduler.
func (s *Paged) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.models) {
		s.models = append(s.models, pagedModel{})
	}
	if s.models[id].profile == nil {
		s.served++
		s.match.AddModel(id, residency.Model{Pages: m.Pages, LoadTime: m.LoadTime})
	}
	s.models[id].profile = m.Profile
	s.shard.AddModel(id, shard.ModelConfig{Config: batching.Config{Profile: m.Profile, SLO: m.SLO, Bytes: m.Bytes, QueueMax: queueMax, Policy: max(s.opts.Policy, m.Drop)}})
}

// AddGPU implements policy.Scheduler.
func (s *Paged) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	s.AddGPUWith(now, id, nil, out)
}

// AddGPUWith implements policy.Loader.
func (s *Paged) AddGPUWith(now mono.Time, id wire.GPUID, held []wire.ModelID, out *policy.Out) {
	for int(id) >= len(s.lives) {
		s.lives, s.told = append(s.lives, 0), append(s.told, 0)
	}
	s.lives[id], _ = s.match.AddGPU(now, id, now, s.cfg.Pages, held, &s.orders)
	s.tellGPUs(now, out)
}

// RemoveGPU implements policy.Scheduler.
func (s *Paged) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.lives) || s.lives[id] == 0 {
		return
	}
	s.match.RemoveGPU(now, id, &s.orders)
	s.tellGPUs(now, out) // first: what was on the last GPU is lost, it did not find none
	s.shard.Lost(now, id, s.lives[id], &s.out)
	s.lives[id] = 0
	out.Drops = append(out.Drops, s.out.Drops...)
	s.out.Drops = s.out.Drops[:0] // recount sees who is left
	s.apply(now, out)
	s.recount(now)
}

// recount brings what residency knows to wait in line with the queues, after requests have come back and
// been dropped. Of those that came back the time of the model's first one counts.
func (s *Paged) recount(now mono.Time) {
	for i := range s.models {
		id, p := wire.ModelID(i), s.models[i].profile
		if p == nil {
			continue
		}
		_, known := s.match.Residency().Demand(id)
		n := s.shard.Queued(id)
		for ; known < n; known++ {
			s.arrive(now, id, s.models[i].first)
		}
		s.match.Doomed(now, id, max(0, known-n))
	}
}

// tellGPUs tells the models how many GPUs there are, and a model's share of them.
func (s *Paged) tellGPUs(now mono.Time, out *policy.Out) {
	n := s.match.GPUs()
	s.shard.SetGPUs(now, n, batching.ShareOf(n, s.served), &s.out)
	s.apply(now, out)
}

// Submit implements policy.Scheduler.
func (s *Paged) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	r.Model = id
	s.shard.Submit(now, id, r, &s.out)
	if r.Class == wire.ClassLatency && (len(s.out.Drops) == 0 || !refused(s.out.Drops[0].Reason)) {
		s.arrive(now, id, r.Deadline.Add(-s.models[id].profile.Latency(1)))
	}
	s.apply(now, out)
}

// arrive tells of a request that alone must start by latest. What it counts as depends on the time it has.
func (s *Paged) arrive(now mono.Time, id wire.ModelID, latest mono.Time) {
	alone := s.models[id].profile.Latency(1)
	s.match.Arrive(now, id, s.match.Residency().Weigh(alone, latest.Add(alone).Sub(now)), latest)
}

// refused: such a request was never queued.
func refused(r wire.Reason) bool {
	return r == wire.ReasonFull || r == wire.ReasonUnavailable || r == wire.ReasonUnknownModel
}

// Done implements policy.Scheduler.
func (s *Paged) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	if run, ok := s.shard.Completed(batch); ok {
		s.told[run.GPU] = now
		s.match.Done(now, run.GPU, run.Life, batch, end)
	}
}

// Loaded implements policy.Loader.
func (s *Paged) Loaded(now mono.Time, r policy.LoadReport, out *policy.Out) {
	s.match.Loaded(now, residency.Report{ID: residency.LoadID(r.ID), Start: r.Start, End: r.End, OK: r.OK}, &s.orders)
	s.apply(now, out)
}

// Step implements policy.Scheduler. A grant may leave the model a candidate
// that is due at once, so it goes round until nothing is.
func (s *Paged) Step(now mono.Time, out *policy.Out) {
	for s.NextWake() <= now {
		if s.shard.NextWake() <= now {
			s.shard.Wake(now, &s.out)
			s.apply(now, out)
		}
		s.match.Step(now, &s.orders)
		s.grants = append(s.grants[:0], s.orders.Grants...)
		s.fills = append(s.fills[:0], s.orders.Fills...)
		s.orders.Grants, s.orders.Fills = s.orders.Grants[:0], s.orders.Fills[:0]
		s.apply(now, out)
		for _, g := range s.grants {
			g.Due, g.Ready = max(g.Due, s.told[g.GPU]), max(g.Ready, s.told[g.GPU]) // as the engine's rank loop
			s.shard.Granted(now, g, &s.out)
			s.apply(now, out)
		}
		for _, g := range s.fills {
			s.shard.Fill(now, g, &s.out)
			s.apply(now, out)
		}
	}
	invariants.Check(s.NextWake() > now, "deferred: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Paged) NextWake() mono.Time { return min(s.shard.NextWake(), s.match.NextWake()) }

// apply carries the shard's effects to the matchmaker, the matchmaker's to the shard, and those of
// both to the caller. Floors change candidates, which change no floor.
func (s *Paged) apply(now mono.Time, out *policy.Out) {
	s.inform(now, out)
	for _, u := range s.orders.Unloads {
		out.Unloads = append(out.Unloads, policy.Unload{Model: u.Model, GPU: u.GPU})
	}
	for _, l := range s.orders.Loads {
		out.Loads = append(out.Loads, policy.Load{ID: policy.LoadID(l.ID), Model: l.Model, GPU: l.GPU, Until: l.Until, Latest: l.Latest})
	}
	for _, f := range s.orders.Floors {
		s.shard.SetFloor(now, f.Model, f.Until, &s.out)
		s.inform(now, out)
	}
	s.orders.Reset()
}

// inform carries the shard's effects to the matchmaker and to the caller.
func (s *Paged) inform(now mono.Time, out *policy.Out) {
	out.Drops = append(out.Drops, s.out.Drops...)
	for i := range s.out.Drops {
		if d := &s.out.Drops[i]; d.Request.Class == wire.ClassLatency && (!refused(d.Reason) || s.match.GPUs() == 0) {
			s.match.Doomed(now, d.Request.Model, 1)
		}
	}
	for i := range s.out.Dispatches {
		d := &s.out.Dispatches[i]
		out.AddDispatch(policy.Dispatch{Batch: d.Batch, Model: d.Model, GPU: d.GPU, Exec: d.Exec, Until: d.Until, Due: d.Due, Requests: d.Requests})
	}
	for i := range s.out.Answers {
		n := 0
		if s.out.Answers[i].Batch != 0 {
			n = len(s.out.Dispatches[0].Requests) // a grant at a time: it is this one's
		}
		s.match.Answer(now, s.out.Answers[i], n)
	}
	for i := range s.out.Candidates {
		k := &s.out.Candidates[i]
		if m, c := &s.models[k.Model], &k.Candidate; c.Size > 0 {
			m.first = c.Latest.Add(m.profile.Latency(int(c.Size)) - m.profile.Latency(1))
		}
		s.match.SetCandidate(now, k.Model, k.Candidate)
	}
	for i := range s.out.Fills {
		s.match.Filled(now, s.out.Fills[i])
	}
	for i := range s.out.Wishes {
		s.match.SetWish(now, s.out.Wishes[i])
	}
	s.out.Reset()
}
