package residency

import (
	"math"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// Arrive tells of a request (or one that is queued again): the work that it counts as, up
// to 4 s (the GPU time that it takes, or what Weigh makes of that), and until when a load of its model helps: the
// latest instant at which a batch of it alone could start in time, d - l(1).
func (r *Residency) Arrive(now mono.Time, id wire.ModelID, work mono.Dur, latest mono.Time) {
	m := r.model(id)
	if m == nil {
		return
	}
	m.asked = now
	w := uint32(max(0, min(work, math.MaxUint32)))
	first := m.waiting.Len() == 0
	if first {
		r.accountAll(m, -1)
	}
	m.waiting.Insert(pq.Entry{Key: int64(latest), Value: w})
	if first {
		r.accountAll(m, 1)
	}
	m.demand += mono.Dur(w)
	if latest < m.horizon {
		m.late++
		m.lateWork += mono.Dur(w)
	}
	r.refresh(now, id, m)
	r.changed = true
}

// Doomed tells that the model's first n requests, by latest start, wait no longer, and were not begun:
// they were dropped, for whatever reason.
func (r *Residency) Doomed(now mono.Time, id wire.ModelID, n int) {
	m := r.model(id)
	if m == nil || n <= 0 {
		return
	}
	r.take(m, n)
	r.refresh(now, id, m)
	r.changed = true
}

// take takes the first n requests away, if so many wait.
func (r *Residency) take(m *model, n int) {
	n = min(n, m.waiting.Len())
	if n == 0 {
		return
	}
	last := n == m.waiting.Len()
	if last {
		r.accountAll(m, -1)
	}
	for range n {
		w := mono.Dur(m.waiting.Pop().Value)
		m.demand -= w
		if m.late > 0 {
			m.late--
			m.lateWork -= w
		}
	}
	if last {
		r.accountAll(m, 1)
	}
}

// accountAll is account of all of a model's places.
func (r *Residency) accountAll(m *model, sign int) {
	for p := m.holders; p != none; p = r.places.all[p].next {
		r.account(&r.places.all[p], sign)
	}
}

// expire finds the requests that no load can help: those that must start before h, or before a
// floor that was told.
func (m *model) expire(h mono.Time) {
	m.horizon = max(h, m.floor)
	for m.late < m.waiting.Len() && mono.Time(m.waiting.At(m.late).Key) < m.horizon {
		m.lateWork += mono.Dur(m.waiting.At(m.late).Value)
		m.late++
	}
	for m.late > 0 && mono.Time(m.waiting.At(m.late-1).Key) >= m.horizon {
		m.late--
		m.lateWork -= mono.Dur(m.waiting.At(m.late).Value)
	}
}

// refresh follows a change of the model's requests or places: its shares, its priority, and
// when its requests' fate is next to be looked at.
func (r *Residency) refresh(now mono.Time, id wire.ModelID, m *model) {
	r.spread(m)
	r.price(now, id, m)
	if at := r.fateOf(now, m); at != mono.Never {
		r.fates.Set(uint32(id), int64(at))
	} else {
		r.fates.Remove(uint32(id))
	}
}

// spread divides the demand among the holders, in inverse proportion to the loads that others put on
// them. All but the last get what is theirs to the nearest nanosecond, the last one the rest.
//
// Rejected: loads with the model's own share in them, as it was before. Of two GPUs alike, one that has
// all of a model's demand looks loaded by it, so at the next request most of it goes to the other,
// and back.
func (r *Residency) spread(m *model) {
	sum := 0.0
	for p := m.holders; p != none; {
		at := &r.places.all[p]
		g := &r.gpus[at.gpu]
		g.load -= at.share
		at.share = 0
		sum += 1 / float64(g.load)
		p = at.next
	}
	rest := m.demand
	for p := m.holders; p != none && rest > 0; {
		at := &r.places.all[p]
		g := &r.gpus[at.gpu]
		at.share = rest
		if at.next != none {
			at.share = min(rest, mono.Dur(math.Round(float64(m.demand)/float64(g.load)/sum)))
		}
		g.load += at.share
		rest -= at.share
		p = at.next
	}
}

// price reckons the model's priority anew, and puts it on the board if a load is worth it.
func (r *Residency) price(now mono.Time, id wire.ModelID, m *model) {
	length := r.loadTime(now, m)
	m.expire(now.Add(length + r.slackOf(now)))
	p := r.priority(m, m.demand-m.lateWork)
	wanted := p > 0 || r.cfg.Rule == ByPriorityCode
	if !wanted || m.late == m.waiting.Len() || m.copies >= min(r.cfg.Copies, r.count) {
		r.board.remove(uint32(id))
		return
	}
	due := mono.Time(m.waiting.At(m.late).Key).Add(-length)
	r.board.set(entry{worth: r.worth(p, length), due: due, id: uint32(id)})
}

// worth is by what a rule compares models of which p of work is left over.
func (r *Residency) worth(p, length mono.Dur) float64 {
	if r.cfg.Rule == BySaving {
		return float64(p) / float64(length)
	}
	return float64(p)
}

// priority is p, of which `helpable` is the work that a load could help.
func (r *Residency) priority(m *model, helpable mono.Dur) mono.Dur {
	if m.holders == none || m.demand == 0 {
		return helpable
	}
	served := 0.0
	for p := m.holders; p != none; p = r.places.all[p].next {
		at := &r.places.all[p]
		served += float64(at.share) * float64(r.cfg.Capacity) / float64(r.gpus[at.gpu].load)
	}
	return helpable - part(served, helpable, m.demand)
}

// priorityWithout is p as it would be if the place were not there.
func (r *Residency) priorityWithout(without int32) mono.Dur {
	m := &r.models[r.places.all[without].model]
	helpable := m.demand - m.lateWork
	if m.copies == 1 || m.demand == 0 {
		return helpable
	}
	sum := 0.0
	for p := m.holders; p != none; p = r.places.all[p].next {
		if at := &r.places.all[p]; p != without {
			sum += 1 / float64(r.gpus[at.gpu].load-at.share)
		}
	}
	served := 0.0
	for p := m.holders; p != none; p = r.places.all[p].next {
		if at := &r.places.all[p]; p != without {
			others := float64(r.gpus[at.gpu].load - at.share)
			share := float64(m.demand) / others / sum
			served += share * float64(r.cfg.Capacity) / (others + share)
		}
	}
	return helpable - part(served, helpable, m.demand)
}

// part is what holders do of the helpable work, where of the whole they do `served`; whole
// nanoseconds of it.
func part(served float64, helpable, whole mono.Dur) mono.Dur {
	if helpable != whole {
		served = served * float64(helpable) / float64(whole)
	}
	return mono.Dur(math.Floor(served))
}

// loadTime is how long a load of the model is planned to take: the p99 of the last ones, doubled for each
// failure in a row. So soon no request can wait for it, and none is tried: until it is
// healed, which takes longer each time.
//
// Long after the last one it is twice the shortest at most. Otherwise one that stood still for a second would
// make every request of the model too late for a load, and so no load would ever show that it was a pause.
func (r *Residency) loadTime(now mono.Time, m *model) mono.Dur {
	if m.failures > 0 && now < m.heals {
		return m.load.P99() << min(m.failures, failuresMax)
	}
	if now.Sub(m.measured) > fresh {
		return min(m.load.P99(), 2*m.load.Least())
	}
	return m.load.P99()
}

// slackOf is how much later than planned to expect the end of a load: the p99 of how much later the last ones
// ended, up to Lag; and 0 long after the last one, for the same reason. What a load can help is judged with it.
func (r *Residency) slackOf(now mono.Time) mono.Dur { return min(r.cfg.Lag, r.errorOf(now)) }

func (r *Residency) errorOf(now mono.Time) mono.Dur {
	if now.Sub(r.measured) > fresh {
		return 0
	}
	return r.slack
}

// lagOf is by how much a load of the model may begin late, and is reckoned with to end late. A load that takes long may well be
// off by more than Lag: a session of ONNX Runtime is made with what others leave of a processor.
func (r *Residency) lagOf(m *model) mono.Dur {
	if r.cfg.Rule != BySaving { // as in the paper
		return r.cfg.Lag
	}
	return max(r.cfg.Lag, m.load.P99())
}

// from is when to count on the weights of a load that is planned to end at until. A batch that is sent too early stands at its GPU, and is
// one of the few that may be on the way to it: who waits for models that are there pays for that.
//
// Rejected: that much in slackOf, too. The lengths that are planned with are long ones already, and loads that
// would have come in time were not begun.
func (r *Residency) from(now, until mono.Time, m *model) mono.Time {
	return until.Add(min(r.lagOf(m), r.errorOf(now)))
}

// latest is until when a load of the model may begin: while it helps any who wait now, and for a while after its planned start. Too late, it
// would be ordered again, by those who still wait: its GPU's pages are free meanwhile, and nobody has them.
func (r *Residency) latest(start mono.Time, m *model) mono.Time {
	at := start.Add(r.lagOf(m))
	if n := m.waiting.Len(); n > 0 && r.cfg.Rule == BySaving {
		at = max(at, mono.Time(m.waiting.At(n-1).Key).Add(-m.load.P99()))
	}
	return at
}
