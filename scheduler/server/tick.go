package server

import (
	"time"

	"github.com/symphony-serving/symphony/transport/mono"
)

// tickEvery is how often the server looks at delays, overdue batches and questions without an answer.
const tickEvery = 200 * time.Millisecond

func (s *Server) tick() {
	defer s.ticking.Done()
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		s.mu.Lock()
		s.measureDelays()
		for p := range s.livePools {
			s.tellTuning(p)
		}
		if !s.closed {
			s.lookForReports(mono.Now())
			s.lookForIdle(mono.Now())
			s.lookForLeft(mono.Now())
			s.lookForMute(mono.Now())
			s.lookAtDoor(mono.Now())
			s.lookForInfeasible(mono.Now())
			s.passFences()
			s.cluster.Tick(mono.Now(), &s.effects)
			if len(s.effects) > 0 {
				s.carryOut(&s.effects)
			}
		}
		s.labels.sweep(mono.Now())
		s.mu.Unlock()
	}
}

// measureDelays turns what links and batches showed into the pools' delay
// bounds: d_ctrl is the worst link's one-way delay plus what every batch's
// fetch pays, d_data what each further MiB of inputs costs. Clamped, and changed only
// when it moved by a tenth: each change forms every candidate anew.
func (s *Server) measureDelays() {
	for p := range s.livePools {
		p.worst = 0
	}
	for _, b := range s.backends {
		if len(b.seats) == 0 {
			continue
		}
		bound := b.link.Stats().DelayBound
		for _, seat := range b.seats {
			seat.pool.worst = max(seat.pool.worst, bound)
		}
	}
	for p := range s.livePools {
		if p.alive.Load() > 0 { // without GPUs there is nothing to reckon with
			s.measureDelay(p, p.worst)
		}
	}
}

func (s *Server) measureDelay(p *pool, link mono.Dur) {
	stats := p.engine.Stats()
	d := p.delay
	d.Ctrl = min(max(link+stats.FetchBase, s.cfg.DelayMin), s.cfg.DelayMax)
	d.MiB = min(stats.FetchPerMiB, perMiBMost*s.cfg.DelayMax)
	if moved(p.delay.Ctrl, d.Ctrl) || moved(p.delay.MiB, d.MiB) {
		p.delay = d
		p.engine.SetDelay(d)
	}
}

// tellTuning logs what the tuner chose, at most once in tuningEvery.
func (s *Server) tellTuning(p *pool) {
	c, _, ok := p.engine.Tuning()
	if !ok || c.Setting == p.told.Setting && p.told.At != 0 || p.told.At != 0 && mono.Now().Sub(p.told.At) < tuningEvery {
		return
	}
	first := p.told.At == 0
	p.told = c
	p.told.At = mono.Now()
	if !first {
		s.log.Info().Str("pool", p.label()).Stringer("setting", c.Setting).Int("changes", c.Changes).Msgf("the scheduler now %v", c)
	}
}

// tuningEvery is how often changes of the setting are worth a line.
const tuningEvery = 10 * mono.Second

// perMiBMost bounds what a MiB may take, in DelayMax: 20 ms by default, two of those of a link of 1 Gbit/s.
const perMiBMost = 4

func moved(before, now mono.Dur) bool {
	change := now - before
	if change < 0 {
		change = -change
	}
	return change > before/10 && change > 5*mono.Microsecond
}
