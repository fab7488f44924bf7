// Package tuned is the scheduler as it serves: the deferred scheduler, and beside it the tuner
// that simulates it with other settings and says which one to use. In the live engine the
// tuner works on a thread of its own; here it works when requests arrive, as much as its
// budget lets it, and takes no time.
package tuned

import (
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/policy/deferred"
	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Options of the scheduler.
type Options struct {
	Headroom rank.Headroom
	// Chose, if not nil, is told of each change of the setting.
	Chose func(now mono.Time, t *tuner.Tuner)
}

// Scheduler is a deferred.Scheduler whose setting follows a tuner.
type Scheduler struct {
	*deferred.Scheduler
	opts   Options
	tuner  *tuner.Tuner // nil: the whole deferral, always
	next   mono.Time    // when the tuner works again
	called mono.Time    // last

	spells []Spell // by setting, in the order of tuner.Outlooks
	last   mono.Time
}

// Spell is for how long a setting was in force, all times together.
type Spell struct {
	Setting batching.Setting
	Span    mono.Dur
}

var (
	_ policy.Scheduler = (*Scheduler)(nil)
	_ policy.Measured  = (*Scheduler)(nil)
)

// New makes a Scheduler without models or GPUs.
func New(cfg policy.Config, opts Options) *Scheduler {
	s := &Scheduler{opts: opts}
	set := batching.Setting{}
	if !opts.Headroom.None() {
		s.tuner = tuner.New(tuner.Config{Scheduler: cfg, Headroom: opts.Headroom})
		set = s.tuner.Choice().Setting
		for _, o := range s.tuner.Outlooks() {
			s.spells = append(s.spells, Spell{Setting: o.Setting})
		}
	}
	s.Scheduler = deferred.New(cfg, deferred.Options{Setting: set, Headroom: opts.Headroom})
	return s
}

// SetDelay implements policy.Measured.
func (s *Scheduler) SetDelay(now mono.Time, d batching.Delay, out *policy.Out) {
	s.Scheduler.SetDelay(now, d, out)
	if s.tuner != nil {
		s.tuner.SetLate(d.Late)
		d.Late = 0
		s.tuner.SetDelay(d)
	}
}

// AddModel implements policy.Scheduler.
func (s *Scheduler) AddModel(id wire.ModelID, m policy.Model) {
	s.Scheduler.AddModel(id, m)
	if s.tuner != nil {
		s.tuner.AddModel(id, m)
	}
}

// AddGPU implements policy.Scheduler.
func (s *Scheduler) AddGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	s.Scheduler.AddGPU(now, id, out)
	s.setGPUs(now)
}

// RemoveGPU implements policy.Scheduler.
func (s *Scheduler) RemoveGPU(now mono.Time, id wire.GPUID, out *policy.Out) {
	s.Scheduler.RemoveGPU(now, id, out)
	s.setGPUs(now)
}

func (s *Scheduler) setGPUs(now mono.Time) {
	if s.tuner != nil {
		s.tuner.SetGPUs(s.Scheduler.GPUs())
	}
}

// Step implements policy.Scheduler.
func (s *Scheduler) Step(now mono.Time, out *policy.Out) {
	s.stood(now)
	drops, dispatches := len(out.Drops), len(out.Dispatches)
	s.Scheduler.Step(now, out)
	s.answered(out, drops, dispatches)
}

// Done implements policy.Scheduler.
func (s *Scheduler) Done(now mono.Time, batch wire.BatchID, end mono.Time, out *policy.Out) {
	s.stood(now)
	s.Scheduler.Done(now, batch, end, out)
}

// stood tells the tuner of a pause, once: something was due, and nobody called.
func (s *Scheduler) stood(now mono.Time) {
	if s.tuner == nil || now <= s.called {
		return
	}
	s.called = now
	if due := s.Scheduler.NextWake(); now.Sub(due) >= tuner.PauseLeast {
		s.tuner.Paused(due, now)
	}
}

// answered tells the tuner of what an Out holds from the given places on.
func (s *Scheduler) answered(out *policy.Out, drops, dispatches int) {
	if s.tuner == nil || len(out.Drops) == drops && len(out.Dispatches) == dispatches {
		return
	}
	served := 0
	for i := dispatches; i < len(out.Dispatches); i++ {
		served += len(out.Dispatches[i].Requests)
	}
	lost := 0
	for i := drops; i < len(out.Drops); i++ {
		if tuner.Lost(out.Drops[i].Reason) {
			lost++
		}
	}
	s.tuner.Answered(served, lost)
}

// Submit implements policy.Scheduler.
func (s *Scheduler) Submit(now mono.Time, id wire.ModelID, r batching.Request, out *policy.Out) {
	drops, dispatches := len(out.Drops), len(out.Dispatches)
	if s.tuner != nil {
		s.stood(now)
		if now >= s.next {
			s.tune(now, out)
		}
		s.tuner.Arrive(now, id, r.Deadline)
	}
	s.Scheduler.Submit(now, id, r, out)
	s.answered(out, drops, dispatches)
}

// tune lets the tuner replay what came since the last time, and takes its choice over.
func (s *Scheduler) tune(now mono.Time, out *policy.Out) {
	s.next = now.Add(tuner.Turn)
	s.spend(now)
	replayed := s.tuner.Work(now, tuner.ReplaysPerSecond)
	s.tuner.Spent(float64(replayed) / tuner.ReplaysPerSecond)
	if s.tuner.Choose(now) {
		s.Scheduler.SetSetting(now, s.tuner.Choice().Setting, out)
		if s.opts.Chose != nil {
			s.opts.Chose(now, s.tuner)
		}
	}
}

// spend counts the time since the last turn for the setting in force.
func (s *Scheduler) spend(now mono.Time) {
	for i := range s.spells {
		if s.spells[i].Setting == s.tuner.Choice().Setting {
			s.spells[i].Span += now.Sub(s.last)
		}
	}
	s.last = now
}

// Tuner is the tuner; nil where the whole deferral is spent always.
func (s *Scheduler) Tuner() *tuner.Tuner { return s.tuner }

// Spells are for how long each setting was in force, in the order of the tuner's Outlooks.
func (s *Scheduler) Spells() []Spell { return s.spells }
