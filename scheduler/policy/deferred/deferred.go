// Package deferred is deferred batch scheduling as a policy.Scheduler: the
// cores of the live engine (shard and rank), joined without threads or rings
// between them. What holds for it holds for the engine: engine's replay test
// demands the same grants of both.
//
// The windows of the eager and the timeout scheduler are choices here
// (Options), as section 3.4 of the Symphony paper has it: the same algorithm
// with another line 5.
package deferred

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/invariants"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/shard"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Options choose what section 3.4 compares.
type Options struct {
	Policy batching.Policy
	Window batching.Window
	// TimeoutShare is k of WindowTimeout, as a share of each model's SLO.
	TimeoutShare float64
	// Setting is in force from the begin.
	Setting  batching.Setting
	Headroom rank.Headroom
}

// Scheduler is one shard and one rank.
type Scheduler struct {
	opts   Options
	shard  *shard.Shard
	rank   *rank.Rank
	served []bool // by model id
	models int    // served
	out    shard.Out
	grants rank.Out
	lives  []rank.Life // GPU -> its life; 0: gone
	told   []mono.Time // GPU -> when its last report came: nobody could have granted it before
}

var (
	_ policy.Scheduler = (*Scheduler)(nil)
	_ policy.Measured  = (*Scheduler)(nil)
)

// New makes a Scheduler without models or GPUs. Only our own window goes with head
// starts: the others are the paper's, and those it compares with.
func New(cfg policy.Config, opts Options) *Scheduler {
	s := &Scheduler{opts: opts, shard: shard.New(shard.Config{RequestsMax: cfg.RequestsMax, BatchesMax: batchesMax}),
		rank: rank.New(rank.Config{ByLatest: opts.Window != batching.WindowDeferred || opts.Setting.ByLatest, Headroom: opts.Headroom})}
	s.rank.SetRoom(opts.Setting.Room)
	s.rank.SetCheap(opts.Setting.Cheap)
	s.shard.SetSetting(mono.Past, opts.Setting, &s.out)
	s.shard.SetDelay(mono.Past, cfg.Delay, &s.out)
	return s
}

const (
	batchesMax = 1 << 14 // running batches: two for each of 8,192 GPUs
	queueMax   = 1 << 20
)

// SetDelay implements policy.Measured.
func (s *Scheduler) SetDelay(now mono.Time, d batching.Delay, out *policy.Out) {
	s.shard.SetDelay(now, d, &s.out)
	s.apply(out)
}

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	for int(id) >= len(s.served) {
		s.served = append(s.served, false)
	}
	if !s.served[id] {
		s.served[id] = true
		s.models++
	}
	s.shard.AddModel(id, shard.ModelConfig{Config: batching.Config{Profile: m.Profile, SLO: m.SLO, Bytes: m.Bytes, QueueMax: queueMax,
		Policy: max(s.opts.Policy, m.Drop), Window: s.opts.Window, Timeout: mono.Dur(s.opts.TimeoutShare * float64(m.SLO))}})
}

// AddGPU implements policy.Scheduler.
func (s *Scheduler) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	for int(id) >= len(s.lives) {
		s.lives, s.told = append(s.lives, 0), append(s.told, 0)
	}
	s.lives[id] = s.rank.AddGPU(id, now)
	s.TellGPUs(now, out)
}

// RemoveGPU implements policy.Scheduler.
func (s *Scheduler) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.lives) || s.lives[id] == 0 {
		return
	}
	s.rank.RemoveGPU(id)
	s.TellGPUs(now, out) // first: what was on the last GPU is lost, it did not find none
	s.shard.Lost(now, id, s.lives[id], &s.out)
	s.lives[id] = 0
	s.apply(out)
}

// DrainGPU ends a GPU's life as RemoveGPU does, but leaves what runs there to end: its Done comes
// as if the GPU were there.
func (s *Scheduler) DrainGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	if int(id) >= len(s.lives) || s.lives[id] == 0 {
		return
	}
	s.rank.RemoveGPU(id)
	s.lives[id] = 0
	s.TellGPUs(now, out)
}

// TellGPUs tells the models how many GPUs there are, and a model's share of them.
func (s *Scheduler) TellGPUs(now mono.Time, out *policy.Out) {
	n := s.rank.GPUs()
	s.shard.SetGPUs(now, n, batching.ShareOf(n, s.models), &s.out)
	s.apply(out)
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	s.shard.Submit(now, id, r, &s.out)
	s.apply(out)
}

// GPUs is how many there are.
func (s *Scheduler) GPUs() int { return s.rank.GPUs() }

// RemoveModel ends a model; what waits is dropped.
func (s *Scheduler) RemoveModel(id wire.ModelID, out *policy.Out) {
	if int(id) < len(s.served) && s.served[id] {
		s.served[id] = false
		s.models--
	}
	s.shard.RemoveModel(id, wire.ReasonUnknownModel, &s.out)
	s.apply(out)
	s.rank.RemoveModel(id)
}

// SetSetting changes how much of the deferral is spent.
func (s *Scheduler) SetSetting(now mono.Time, set batching.Setting, out *policy.Out) {
	s.rank.SetByLatest(set.ByLatest)
	s.rank.SetRoom(set.Room)
	s.rank.SetCheap(set.Cheap)
	s.shard.SetSetting(now, set, &s.out)
	s.apply(out)
}

// Need is the GPUs that deferral alone would keep busy.
func (s *Scheduler) Need(now mono.Time) float64 { return s.rank.Need(now) }

// Kept is how many GPUs, from id 0 on, may take early batches.
func (s *Scheduler) Kept() int { return s.rank.Kept() }

// Crowded tells whether all GPUs were busy lately and a good part of what was wanted of them was lost (devices.Table.Crowded).
func (s *Scheduler) Crowded(now mono.Time) bool { return s.rank.Crowded(now) }

// Tight tells whether GPUs would be left to tight models now, were it the setting (rank.Tight).
func (s *Scheduler) Tight(now mono.Time) bool { return s.rank.Tight(now) }

// Done implements policy.Scheduler.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	if run, ok := s.shard.Completed(batch); ok {
		s.told[run.GPU] = now
		s.rank.Done(run.GPU, run.Life, batch, end)
	}
}

// Step implements policy.Scheduler. A grant may leave the model a candidate
// that is due at once, so it goes round until nothing is.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	for s.NextWake() <= now {
		if s.shard.NextWake() <= now {
			s.shard.Wake(now, &s.out)
			s.apply(out)
		}
		s.grants.Grants, s.grants.Fills = s.grants.Grants[:0], s.grants.Fills[:0]
		s.rank.Step(now, &s.grants)
		for _, g := range s.grants.Grants {
			g.Due, g.Ready = max(g.Due, s.told[g.GPU]), max(g.Ready, s.told[g.GPU]) // as the engine's rank loop
			s.shard.Granted(now, g, &s.out)
			s.apply(out)
		}
		for _, g := range s.grants.Fills {
			s.shard.Fill(now, g, &s.out)
			s.apply(out)
		}
	}
	invariants.Check(s.NextWake() > now, "deferred: something is due after Step")
}

// NextWake implements policy.Scheduler.
func (s *Scheduler) NextWake() mono.Time { return min(s.shard.NextWake(), s.rank.NextWake()) }

// apply carries the shard's effects to the rank and to the caller.
func (s *Scheduler) apply(out *policy.Out) {
	out.Drops = append(out.Drops, s.out.Drops...)
	for i := range s.out.Dispatches {
		d := &s.out.Dispatches[i]
		out.AddDispatch(policy.Dispatch{Batch: d.Batch, Model: d.Model, GPU: d.GPU, Exec: d.Exec, Until: d.Until, Due: d.Due, Requests: d.Requests})
	}
	for i := range s.out.Answers {
		s.rank.Answer(s.out.Answers[i])
	}
	for i := range s.out.Candidates {
		s.rank.SetCandidate(s.out.Candidates[i].Model, s.out.Candidates[i].Candidate)
	}
	for i := range s.out.Fills {
		s.rank.Filled(s.out.Fills[i])
	}
	for i := range s.out.Wishes {
		s.rank.SetWish(s.out.Wishes[i])
	}
	s.out.Reset()
}
