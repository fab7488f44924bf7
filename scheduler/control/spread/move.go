package spread

import (
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// finish ends moves that are done, that have failed, or that take too long.
func (s *Spread) finish(now mono.Time, w World, out *Effects) {
	for _, name := range names(s.moving) {
		m := s.models[name]
		why, there := s.stuck(now, m, w), s.arrived(m, w)
		if !there {
			m.there = mono.Never
		} else if m.there == mono.Never {
			m.there = now
		}
		switch {
		case there && now < m.there.Add(s.cfg.Linger):
		case there:
			out.Notes = append(out.Notes, fmt.Sprintf("model %s is served by scheduler %s; it leaves %s", name, s.schedulers[m.to], s.schedulers[m.at]))
			s.take(m.at, m, out)
			m.at, m.to = m.to, Nowhere
			m.rest = now.Add(restOf * s.cfg.Interval)
			delete(s.moving, name)
		case why != "":
			out.Notes = append(out.Notes, fmt.Sprintf("model %s stays at scheduler %s and does not move to %s: %s", name, s.schedulers[m.at], s.schedulers[m.to], why))
			s.collapse(m, w, out)
			m.rest, m.again = now.Add(restOf*s.cfg.Interval), now.Add(s.cfg.Interval)
		}
	}
}

// restOf is how many Intervals a model that has moved stays where it is.
const restOf = 4

// arrived reports whether all that is wanted of a model is served where it moves, or all of it
// that is served where it comes from.
func (s *Spread) arrived(m *model, w World) bool {
	if !w.Told(m.to) {
		return false
	}
	all, some, likewise := true, false, true
	for i := range m.versions {
		key := m.versions[i].Key
		there := w.Routed(m.to, key)
		all, some = all && there, some || there
		likewise = likewise && (there || !w.Told(m.at) || !w.Routed(m.at, key))
	}
	return all || some && likewise
}

// stuck is why a move will not end well; "": it may.
func (s *Spread) stuck(now mono.Time, m *model, w World) string {
	if w.Told(m.to) {
		m.lost = mono.Never
	} else if m.lost == mono.Never {
		m.lost = now
	}
	if m.lost != mono.Never && now >= m.lost.Add(s.cfg.Stranded) {
		return "that one is away"
	}
	if m.lost == mono.Never {
		for i := range m.versions {
			key := m.versions[i].Key
			if why := w.Failed(m.to, key); why != "" && w.Failed(m.at, key) == "" {
				return why
			}
		}
	}
	if now >= m.began.Add(s.cfg.MoveMax) {
		return fmt.Sprintf("it is not served there after %v", s.cfg.MoveMax)
	}
	return ""
}

// rescue moves models whose scheduler is there and has had no GPU for them for a while.
func (s *Spread) rescue(now mono.Time, w World, out *Effects) {
	for _, name := range names(s.models) {
		m := s.models[name]
		if m.at == Nowhere || m.to != Nowhere || len(m.versions) == 0 || !w.Told(m.at) {
			m.stranded = mono.Never
			continue
		}
		if versions, _ := s.runs(m.at, m); versions > 0 {
			m.stranded = mono.Never
			continue
		}
		if m.stranded == mono.Never {
			m.stranded = now
		}
		if s.paused || now < m.stranded.Add(s.cfg.Stranded) || now < m.again {
			continue
		}
		s.weigh(now, w)
		b := s.load(m, w)
		if to, fits := s.choose(m, max(b.bytes, sized(m)), m.at, w); fits {
			s.carry(m.at, to, &b)
			s.move(now, m, to, "its scheduler has no GPU for it", out)
		}
	}
}

// balance moves models from where needs per GPU are highest to where they are lowest, by device
// type.
func (s *Spread) balance(now mono.Time, w World, out *Effects) {
	if s.paused {
		clear(s.apart)
		return
	}
	if now >= s.window.Add(s.cfg.Interval) {
		s.window, s.moved = now, 0
	}
	s.weigh(now, w)
	for _, t := range s.types() {
		high, low, gap := s.extremes(t)
		s.note(now, t, low, gap)
		if gap <= s.cfg.Apart || !s.quiet(t, w) {
			continue
		}
		for gap > s.cfg.Near && s.held(now, side{t, high, true}) && s.held(now, side{t, low, false}) && s.shift(now, t, high, low, gap, w, out) {
			high, low, gap = s.extremes(t)
		}
	}
}

// side is a scheduler that has much higher, or lower, need per GPU of a type than another one.
type side struct {
	deviceType string
	scheduler  int
	high       bool
}

// note keeps since when schedulers are apart from the lowest and from the highest. So needs that
// go up here and down there in turns are none that move models.
func (s *Spread) note(now mono.Time, t string, low int, gap float64) {
	for i := range s.schedulers {
		n := s.gpusOf(i, t)
		above := 0.0 // the lowest
		if n > 0 {
			above = s.loads.need[i][t]/float64(n) - s.loads.need[low][t]/float64(s.gpusOf(low, t))
		}
		for _, x := range []struct {
			side side
			so   bool
		}{{side{t, i, true}, n > 0 && above > s.cfg.Apart}, {side{t, i, false}, n > 0 && gap-above > s.cfg.Apart}} {
			if _, there := s.apart[x.side]; !x.so {
				delete(s.apart, x.side)
			} else if !there {
				s.apart[x.side] = now
			}
		}
	}
}

// held reports whether it has been so for long.
func (s *Spread) held(now mono.Time, x side) bool {
	since, there := s.apart[x]
	return there && now >= since.Add(s.cfg.Hold)
}

// quiet reports whether nothing of a type moves: what is under way changes needs, and is waited for.
func (s *Spread) quiet(deviceType string, w World) bool {
	for _, name := range names(s.moving) {
		if b := s.load(s.models[name], w); len(b.types) == 0 || slices.Contains(b.types, deviceType) {
			return false
		}
	}
	return true
}

// types are the device types that there are GPUs of.
func (s *Spread) types() (all []string) {
	for i := range s.schedulers {
		for _, g := range s.gpus[i] {
			if g.Count > 0 && !slices.Contains(all, g.DeviceType) {
				all = append(all, g.DeviceType)
			}
		}
	}
	slices.Sort(all)
	return all
}

// gpusOf counts a scheduler's GPUs of a type; 0: it is away, too.
func (s *Spread) gpusOf(i int, deviceType string) int {
	for _, g := range s.gpus[i] {
		if g.DeviceType == deviceType {
			return g.Count
		}
	}
	return 0
}

// extremes are the schedulers with the highest and the lowest need per GPU of a type, and how far
// they are apart. One that is away has neither.
func (s *Spread) extremes(deviceType string) (high, low int, gap float64) {
	high, low = Nowhere, Nowhere
	most, least := 0.0, 0.0
	for i := range s.schedulers {
		n := s.gpusOf(i, deviceType)
		if n == 0 {
			continue
		}
		u := s.loads.need[i][deviceType] / float64(n)
		if high == Nowhere || u > most {
			high, most = i, u
		}
		if low == Nowhere || u < least {
			low, least = i, u
		}
	}
	return high, low, most - least
}

// shift moves one model: the one with the most need that leaves the two no further apart the
// other way round, and that the Interval has bytes left for. false: there is none.
func (s *Spread) shift(now mono.Time, t string, high, low int, gap float64, w World, out *Effects) bool {
	share := 1/float64(s.gpusOf(high, t)) + 1/float64(s.gpusOf(low, t)) // of a model's need, off the gap
	left := int64(s.cfg.MovesMax*float64(s.loads.all)) - s.moved
	var best *model
	var load burden
	for _, name := range names(s.models) {
		m := s.models[name]
		if m.at != high || m.to != Nowhere || now < m.rest || now < m.again {
			continue
		}
		b := s.load(m, w)
		need := b.need()
		if len(b.types) == 0 || slices.ContainsFunc(b.types, func(x string) bool { return x != t }) || max(1, b.bytes) > left || !s.fits(low, b.bytes, m) ||
			float64(need*share) < worth || float64(need*share) > gap || best != nil && need <= load.need() {
			continue
		}
		best, load = m, b
	}
	if best == nil {
		return false
	}
	s.moved += max(1, load.bytes)
	s.move(now, best, low, fmt.Sprintf("it needs %.0f %% more of its GPUs", 100*gap), out)
	s.carry(high, low, &load)
	return true
}

// carry counts a model where it goes, no more where it is.
func (s *Spread) carry(from, to int, b *burden) {
	for k, t := range b.types {
		s.loads.need[from][t] -= b.needs[k]
		s.loads.need[to][t] += b.needs[k]
	}
	s.loads.bytes[from] -= b.bytes
	s.loads.bytes[to] += b.bytes
	s.loads.count[from]--
	s.loads.count[to]++
}

// worth is by how much a move must bring two schedulers nearer, at least.
const worth = 0.01
