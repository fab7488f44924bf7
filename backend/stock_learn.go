package backend

import (
	"time"

	"github.com/symphony-serving/symphony/backend/learn"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/backend/profiler"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	// learnEvery is the span between two looks at what ran.
	learnEvery = 500 * time.Millisecond
	// keepEvery is the least span between two writes of a profile that is being learnt: each reads the
	// model's file.
	keepEvery = 10 * mono.Second
)

// learning is what an entry has of package learn. Guarded by the stock's mu.
type learning struct {
	of      *catalog.ModelSpec // that learner knows: another one is news
	learner *learn.Learner
	ran     *ran
	read    uint64 // of ran
	kept    mono.Time
	keeping bool             // a goroutine writes the profile
	unkept  *profile.Profile // to be written
	doubted bool             // it is measured because nothing is served by its profile
	before  bool             // likewise: entry.measured
}

// learnAll has profiles corrected by what ran, until the backend ends.
func (b *Backend) learnAll() {
	t := time.NewTicker(learnEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			now := mono.Now()
			for _, p := range b.pools {
				if p.cfg.Kind != KindEmulated { // those take what their profiles say
					p.stock.learn(now, p.crowded())
				}
			}
		case <-b.stop:
			return
		}
	}
}

// learn looks at what has run.
func (s *stock) learn(now mono.Time, crowded bool) {
	for from := 0; s.learnPart(now, crowded, from); from += partModels {
	}
}

// learnPart does that for some of the slots under one hold of mu; false: there are no more.
func (s *stock) learnPart(now mono.Time, crowded bool, from int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from >= len(s.slots) || s.closed {
		return false
	}
	for _, e := range s.slots[from:min(from+partModels, len(s.slots))] {
		// One that no device has yet is not doubted: it could not be measured, and would be doubted again minutes later.
		if e != nil && !e.gone && !e.hidden && e.next == nil && e.profiled && e.spec != nil && e.served() {
			s.learnOf(now, crowded, e)
		}
	}
	return true
}

// learnOf does that of a model. Caller holds mu.
func (s *stock) learnOf(now mono.Time, crowded bool, e *entry) {
	l, ran := &e.learning, &s.p.countersOf(e.slot).ran
	if l.ran != ran {
		l.ran, l.read = ran, ran.n.Load()
	}
	if l.learner == nil && l.read == ran.n.Load() && e.spec.Profile.Alone() <= e.spec.SLO {
		return // it does not run: nothing is made for it
	}
	if l.of != e.spec && !s.relearn(now, e) {
		return
	}
	disturbed := e.measuring >= 0 || s.b.measuring.taken() // runs beside it share the host
	l.read = ran.since(l.read, func(size int, took mono.Dur) {
		if !disturbed {
			l.learner.Add(now, size, took)
		}
	})
	if disturbed {
		return
	}
	was := l.learner.Learning()
	switch l.learner.Step(now, crowded) {
	case learn.Correct:
		s.corrected(now, e)
	case learn.Try:
		s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Stringer("slo", e.spec.SLO).
			Msg("by what was learnt of it, no request of it can make its SLO: it is tried whether that is still so")
		s.respecified(e)
	case learn.Measure:
		s.doubt(e)
	}
	if was && !l.learner.Learning() {
		s.b.log.Info().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Stringer("one", l.learner.Profile().Latency(1)).
			Stringer("largest", l.learner.Profile().Latency(l.learner.Profile().MaxBatch())).Msg("its latency profile agrees with its batches again")
		l.unkept, l.kept = l.learner.Profile(), mono.Past
	}
	s.keepLearnt(now, e)
}

// relearn begins with a specification that the learner does not know; false: its profile is none. Caller holds mu.
func (s *stock) relearn(now mono.Time, e *entry) bool {
	l := &e.learning
	p, err := profile.FromDoc(e.spec.Profile, e.model.Spec.MaxBatch)
	if err != nil {
		return false
	}
	l.of = e.spec
	if l.learner != nil && l.learner.Knows(p, e.spec.SLO) {
		return true
	}
	origin, known := learn.Given, 0
	switch at, learnt := profiler.History(s.profileKey(e.model), e.spec.Profile); {
	case learnt != nil:
		origin, known = learn.Learnt, learnt.Largest
	case at.UnixMilli() >= s.b.configured/1e6:
		origin = learn.Measured
	case !at.IsZero():
		origin = learn.Stored
	}
	l.unkept = nil
	if l.learner == nil {
		l.learner = learn.NewLearner(now, p, e.spec.SLO, origin, known)
		return true
	}
	l.learner.Restart(now, p, e.spec.SLO, origin, known)
	return true
}

// corrected takes a profile that what ran has changed. Caller holds mu.
func (s *stock) corrected(now mono.Time, e *entry) {
	l := &e.learning
	p := l.learner.Profile()
	before, _ := profile.FromDoc(e.spec.Profile, e.model.Spec.MaxBatch)
	s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Int("runs", l.learner.Runs()).
		Stringer("one", p.Latency(1)).Stringer("one_before", before.Latency(1)).
		Stringer("largest", p.Latency(p.MaxBatch())).Stringer("largest_before", before.Latency(p.MaxBatch())).
		Msg("its batches take other times than its latency profile says: the profile is corrected")
	s.p.countersOf(e.slot).corrected.Inc()
	l.unkept = p
	s.respecified(e)
}

// respecified has a model served by the learner's profile. Caller holds mu.
func (s *stock) respecified(e *entry) {
	with := *e.spec
	with.Profile = e.learning.learner.Profile().Doc()
	e.spec, e.learning.of = &with, &with
	e.respecify()
	s.p.setSpec(e.slot, e.spec)
	s.changed(e)
}

// doubt has a model measured again: by its profile nothing can be served. Caller holds mu.
func (s *stock) doubt(e *entry) {
	for d := range e.on {
		if e.ready(d) && e.measuring < 0 && e.err == nil && !e.later {
			s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Stringer("one", e.learning.learner.Profile().Latency(1)).Stringer("slo", e.spec.SLO).
				Msg("by its latency profile no request can make its SLO: it is measured again")
			e.learning.doubted, e.learning.before = true, e.measured
			e.measured, e.measureOn[d] = false, true
			s.settle(e)
			return
		}
	}
}

// undoubted leaves a model with the profile that it has: it could not be measured. Caller holds mu.
func (s *stock) undoubted(e *entry, d int, err error) {
	e.learning.doubted, e.measured, e.measureOn[d] = false, e.learning.before, false
	if s.ctx.Err() == nil {
		s.b.log.Warn().Str("pool", s.p.doc.DeviceType).Str("model", e.key).Err(err).Msg("it keeps the latency profile that it has: it cannot be measured now")
	}
}

// keepLearnt writes what was learnt beside the model, so that the next start does not begin with what was wrong. Caller holds mu.
func (s *stock) keepLearnt(now mono.Time, e *entry) {
	l := &e.learning
	if l.unkept == nil || l.keeping || now < l.kept.Add(keepEvery) {
		return
	}
	p, how, key := l.unkept, profiler.Learnt{Runs: l.learner.Runs(), Largest: l.learner.Known()}, s.profileKey(e.model)
	l.unkept, l.kept, l.keeping = nil, now, true
	s.work.Go(func() {
		var path string
		var err error
		nice.Run(nice.Most, func() { path, err = profiler.WriteLearnt(key, p, how) })
		event := s.b.log.Info()
		if err != nil {
			event = s.b.log.Warn().AnErr("not_kept", err)
		}
		event.Str("model", e.key).Int("runs", how.Runs).Str("file", path).Msg("learnt latency profile")
		s.mu.Lock()
		l.keeping = false
		s.mu.Unlock()
	})
}
