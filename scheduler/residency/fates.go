package residency

import (
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// fateOf is when the fate of the model's first requests is to be looked at: those that were not told of
// by a floor. With a resident holder there is nothing to say: the matchmaker's times
// decide. While the first load is under way, those that cannot wait for its end are lost now. With no holder
// one is lost once a load begun then would end too late. Never: not at all.
func (r *Residency) fateOf(now mono.Time, m *model) mono.Time {
	if m.ready > 0 || m.waiting.Len() == 0 || r.count == 0 {
		return mono.Never
	}
	i := 0
	if mono.Time(m.waiting.At(0).Key) < m.floor {
		i = m.waiting.Below(int64(m.floor))
	}
	if i == m.waiting.Len() {
		return mono.Never
	}
	latest := mono.Time(m.waiting.At(i).Key)
	if m.copies == 0 {
		return latest.Add(1 - r.loadTime(now, m) - r.slackOf(now))
	}
	if latest < r.firstFrom(m) {
		return now
	}
	return mono.Never
}

// judge tells the floor of a model without resident holders, if requests cannot wait for it.
func (r *Residency) judge(now mono.Time, id wire.ModelID, out *Out) {
	m := &r.models[id]
	r.fates.Remove(uint32(id))
	var t mono.Time
	switch {
	case m.ready > 0 || m.waiting.Len() == 0 || r.count == 0:
		return
	case m.copies > 0:
		t = r.firstFrom(m)
	default:
		t = r.soonest(now, m)
	}
	if t > m.floor && mono.Time(m.waiting.At(0).Key) < t {
		m.floor = t
		out.Floors = append(out.Floors, Floor{id, t})
		r.counts.Floors++
	}
	r.refresh(now, id, m)
}

// firstFrom is the earliest start on any holder.
func (r *Residency) firstFrom(m *model) mono.Time {
	t := mono.Never
	for p := m.holders; p != none; p = r.places.all[p].next {
		t = min(t, r.places.all[p].from)
	}
	return t
}

// soonest is the earliest start on any GPU if a load were ordered now. Where no GPU has the pages, it is later
// than all requests that wait, but not for good: a larger one may come.
func (r *Residency) soonest(now mono.Time, m *model) mono.Time {
	free := mono.Never
	for i := range r.gpus {
		if g := &r.gpus[i]; g.present && g.pages >= int(m.pages) {
			free = min(free, max(g.until(), g.rests))
		}
	}
	if free == mono.Never {
		return mono.Time(m.waiting.At(m.waiting.Len() - 1).Key).Add(1)
	}
	return max(now, free).Add(r.loadTime(now, m) + r.slackOf(now))
}
