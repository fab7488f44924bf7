package spread

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// finish ends moves that are done, that have failed, or that take too long.
func (s *Spread) finish(now mono.Time, w World, out *Effects) {
	for _, name := range names(s.moving) {
		m := s.models[name]
		if !s.sure(now, m, w) {
			continue
		}
		why, there := s.stuck(now, m, w, out), s.arrived(m, w)
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
			s.undo(now, m, w, why, out)
		}
	}
}

// restOf is how many Intervals a model that has moved stays where it is, and avoidOf how many it is
// not sent again to where it could not be served, while there is another place.
const (
	restOf  = 4
	avoidOf = 12
)

// undo ends a move that has failed.
func (s *Spread) undo(now mono.Time, m *model, w World, why string, out *Effects) {
	text, to := fmt.Sprintf("model %s stays at scheduler %s and does not move to %s: %s", m.name, s.schedulers[m.at], s.schedulers[m.to], why), m.to
	if m.assigned {
		out.Warnings = append(out.Warnings, text+"; a plan that has it there and is applied again tries again")
	} else {
		out.Notes = append(out.Notes, text)
	}
	if s.collapse(m, w, out); m.at != to {
		m.avoid(to, now.Add(avoidOf*s.cfg.Interval))
	}
	m.rest, m.again = now.Add(restOf*s.cfg.Interval), now.Add(s.cfg.Interval)
}

// sure decides once which way a model moves of which two plans were found at the start: from
// where it is served, once both have told; if it is at both, or at none, to where the newer plan has it.
func (s *Spread) sure(now mono.Time, m *model, w World) bool {
	switch {
	case !m.unsure:
	case w.Told(m.at) && w.Told(m.to):
		if !s.serves(m.at, m, w) && s.serves(m.to, m, w) {
			m.at, m.to = m.to, m.at
		}
		m.unsure = false
	case now >= m.began.Add(s.cfg.Stranded): // one is away for long: as the plans have it
		m.unsure = false
	}
	return !m.unsure
}

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

// stuck is why a move will not end well; "": it may. While people's plan holds, what it has moved is
// tried again where it fails, for MoveMax, and loading may take as long as it takes.
func (s *Spread) stuck(now mono.Time, m *model, w World, out *Effects) string {
	if w.Told(m.to) {
		m.lost = mono.Never
	} else if m.lost == mono.Never {
		m.lost = now
	}
	if m.lost != mono.Never && now >= m.lost.Add(s.cfg.Stranded) {
		return "that one is away"
	}
	why := ""
	if m.lost == mono.Never {
		why = s.failure(m, w)
	}
	patient := m.assigned && s.paused
	switch {
	case why != "" && patient && m.failing == mono.Never:
		m.failing = now
		out.Warnings = append(out.Warnings, fmt.Sprintf("model %s, which moves from scheduler %s to %s, is not served there yet, and tried again: %s", m.name, s.schedulers[m.at], s.schedulers[m.to], why))
	case why != "" && (!patient || now >= m.failing.Add(s.cfg.MoveMax)):
		return why
	}
	if patient && s.holds(m.to, m, w) > 0 {
		m.began = now // its time begins when the plan holds no more
	}
	if now >= m.began.Add(s.cfg.MoveMax) {
		return fmt.Sprintf("it is not served there after %v", s.cfg.MoveMax)
	}
	return ""
}

// failure is why a model will not be served where it moves; "": it may be. A version that fails at both
// places is no reason against the move while another may be served there.
func (s *Spread) failure(m *model, w World) (why string) {
	all := true
	for i := range m.versions {
		key := m.versions[i].Key
		f := w.Failed(m.to, key)
		if f != "" && w.Failed(m.at, key) == "" {
			return f
		}
		why, all = cmp.Or(why, f), all && f != ""
	}
	if !all {
		return ""
	}
	return why
}

// rescue moves models that their scheduler, which is there, could not serve for a while. Those that
// have failed there may fail anywhere: one at a time is tried elsewhere, while nothing else moves.
func (s *Spread) rescue(now mono.Time, w World, out *Effects) {
	for _, name := range names(s.models) {
		m := s.models[name]
		why, tried := s.unable(m, w)
		if why == "" {
			m.stranded = mono.Never
			continue
		}
		if m.stranded == mono.Never {
			m.stranded = now
		}
		if s.paused || now < m.stranded.Add(s.cfg.Stranded) || now < m.again || tried && len(s.moving) > 0 {
			continue
		}
		s.weigh(now, w)
		b := s.load(m, w)
		bytes := max(b.bytes, sized(m))
		to, fits := s.choose(m, bytes, w, func(i int) bool { return i == m.at || m.avoids(i, now) })
		if !fits && !tried { // better where it has failed than nowhere
			to, fits = s.choose(m, bytes, w, func(i int) bool { return i == m.at })
		}
		if !fits {
			continue
		}
		if tried {
			m.avoid(m.at, now.Add(avoidOf*s.cfg.Interval))
		}
		s.carry(m.at, to, &b)
		s.move(now, m, to, why, out)
	}
}

// unable is why a scheduler that is there cannot serve a model; "": it may, or it is away, or the
// model moves. tried: it has failed there, though there are GPUs for it.
func (s *Spread) unable(m *model, w World) (why string, tried bool) {
	if m.at == Nowhere || m.to != Nowhere || len(m.versions) == 0 || !w.Told(m.at) {
		return "", false
	}
	if versions, _ := s.runs(m.at, m); versions == 0 {
		return "its scheduler has no GPU for it", false
	}
	if s.serves(m.at, m, w) {
		return "", false
	}
	if s.holds(m.at, m, w) == 0 {
		return "its scheduler has no GPU that is large enough for it", false
	}
	for i := range m.versions {
		if why = w.Failed(m.at, m.versions[i].Key); why == "" {
			return "", false
		}
	}
	return "its scheduler cannot serve it: " + why, true
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
// other way round, and that the Interval has bytes left for. Where it has for none, the first one of an
// Interval may have more: in a small catalogue each one has. false: there is none.
func (s *Spread) shift(now mono.Time, t string, high, low int, gap float64, w World, out *Effects) bool {
	share := 1/float64(s.gpusOf(high, t)) + 1/float64(s.gpusOf(low, t)) // of a model's need, off the gap
	left := int64(s.cfg.MovesMax*float64(s.loads.all)) - s.moved
	var best *model
	var load burden
	var within bool // best is, the bytes that are left
	for _, name := range names(s.models) {
		m := s.models[name]
		if m.at != high || m.to != Nowhere || now < m.rest || now < m.again {
			continue
		}
		b := s.load(m, w)
		need := b.need()
		if len(b.types) == 0 || slices.ContainsFunc(b.types, func(x string) bool { return x != t }) || float64(need*share) < worth || float64(need*share) > gap {
			continue
		}
		small := max(1, b.bytes) <= left
		if !small && s.moved > 0 || best != nil && (within && !small || within == small && need <= load.need()) {
			continue
		}
		if m.avoids(low, now) || !s.fits(low, b.bytes, m) || s.holds(low, m, w) < s.holds(high, m, w) {
			continue
		}
		best, load, within = m, b, small
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
