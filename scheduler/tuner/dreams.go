package tuner

import (
	"math/rand/v2"

	"github.com/symphony-serving/symphony/scheduler/pq"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// dreams makes up arrivals like those that came: each model's gaps and budgets are drawn
// from its last ones, apart from the other models'. Pauses of the scheduler are dreamt of likewise.
type dreams struct {
	models []memory
	next   pq.Heap   // model -> its next arrival, in dream time
	pauses memory    // their budgets are how long they are
	pause  mono.Time // the next one, in dream time; 0: none is known
	now    mono.Time // dream time: of the last arrival that was made up
	rng    *rand.Rand
}

// memory is the last arrivals of a model.
type memory struct {
	gaps   []gap // a ring, once it has gapsMax
	at     int   // how many there were
	last   mono.Time
	seen   bool  // last is the arrival before the next one
	kept   []gap // put aside
	keptAt int
}

// gap is the time between two arrivals, and the second one's until its deadline.
type gap struct{ span, budget mono.Dur }

const (
	gapsMax   = 256
	gapsLeast = 4 // fewer tell nothing
	// burstsLeast is how many gaps there must be of about the longest.
	burstsLeast = 4
	// silentPart: a model of which nothing came for 1/silentPart of the time that its last
	// gaps took, and for silentLeast, has fallen silent. It is asked now and then only.
	silentPart  = 2
	silentLeast = mono.Second
	silentAsked = 64
	// pauseSilent is for how long pauses are dreamt of after the last one at least: where no request waits, nothing is
	// due in a pause, and it is not noticed.
	pauseSilent = 60 * mono.Second
)

// observe takes an arrival.
func (d *dreams) observe(now mono.Time, id wire.ModelID, budget mono.Dur) {
	for int(id) >= len(d.models) {
		d.models = append(d.models, memory{})
	}
	m := &d.models[id]
	if m.add(now, budget) && !d.next.Has(uint32(id)) && m.known() {
		d.next.Set(uint32(id), int64(d.now.Add(d.draw(m).span)))
	}
}

// paused takes a pause of the scheduler.
func (d *dreams) paused(now mono.Time, length mono.Dur) {
	if d.pauses.add(now, length) && d.pause == 0 && d.pauses.known() {
		d.pause = d.now.Add(d.draw(&d.pauses).span)
	}
}

// add takes an arrival; true if it makes a gap.
func (m *memory) add(now mono.Time, budget mono.Dur) (gapped bool) {
	if gapped = m.seen; gapped {
		g := gap{max(0, now.Sub(m.last)), budget}
		if len(m.gaps) < gapsMax {
			m.gaps = append(m.gaps, g)
		} else {
			m.gaps[m.at%gapsMax] = g
		}
		m.at++
	}
	m.seen, m.last = true, now
	return gapped
}

func (d *dreams) draw(m *memory) gap { return m.gaps[d.rng.IntN(len(m.gaps))] }

// append appends up to n arrivals to dst, the first of them after the instant at of shadow time.
// They span no more than so much of it.
func (d *dreams) append(dst []arrival, now, at mono.Time, span mono.Dur, n int) []arrival {
	offset := at.Sub(d.now)
	for ; n > 0 && d.next.Len() > 0; n-- {
		id, key := d.next.Min()
		when := mono.Time(key)
		if d.pause != 0 && d.pause <= when {
			if d.pause.Add(offset).Sub(at) > span {
				break
			}
			dst = d.dreamPause(dst, now, offset)
			continue
		}
		m := &d.models[id]
		if when.Add(offset).Sub(at) > span {
			break
		}
		if d.rng.IntN(silentAsked) == 0 && (m.silent(now) || !m.known()) {
			d.remove(wire.ModelID(id))
			continue
		}
		g := d.draw(m)
		d.now = when
		dst = append(dst, arrival{d.now.Add(offset), g.budget, wire.ModelID(id)})
		d.next.Set(id, int64(when.Add(d.draw(m).span)))
	}
	return dst
}

// dreamPause appends the next pause, unless there have been none for long.
func (d *dreams) dreamPause(dst []arrival, now mono.Time, offset mono.Dur) []arrival {
	m := &d.pauses
	if now.Sub(m.last) > pauseSilent && m.silent(now) {
		m.gaps, m.at, m.seen, d.pause = m.gaps[:0], 0, false, 0
		return dst
	}
	d.now = d.pause
	length := d.draw(m).budget
	dst = append(dst, arrival{d.now.Add(offset), length, pauseMark})
	d.pause = d.now.Add(max(length, d.draw(m).span)) // not before this one has ended
	return dst
}

// known reports whether the gaps are of several bursts: as many as there are of about the longest. What was
// seen of one burst alone makes dreams of a burst without an end.
func (m *memory) known() bool {
	sum, squares := 0.0, 0.0
	for _, g := range m.gaps {
		span := float64(g.span)
		sum += span
		squares += float64(span * span)
	}
	return len(m.gaps) >= gapsLeast && float64(sum*sum) >= burstsLeast*squares
}

func (m *memory) silent(now mono.Time) bool {
	sum := mono.Dur(0)
	for _, g := range m.gaps {
		sum += g.span
	}
	return now.Sub(m.last) > max(silentLeast, sum/silentPart)
}

// missedOf says that a request of a model came at another time than is known: nothing that it ends is a gap.
func (d *dreams) missedOf(id wire.ModelID) {
	if int(id) < len(d.models) {
		d.models[id].seen = false
	}
}

// missed says that requests came which were not observed: the next gaps are not known.
func (d *dreams) missed() {
	for i := range d.models {
		d.models[i].seen = false
	}
	d.pauses.seen = false
}

// forget drops what was observed: the load is another one.
func (d *dreams) forget() {
	for i := range d.models {
		d.drop(uint32(i))
	}
}

// putAside keeps what was observed, and begins anew.
func (d *dreams) putAside() {
	for i := range d.models {
		m := &d.models[i]
		m.gaps, m.kept, m.keptAt = m.kept, m.gaps, m.at
		d.drop(uint32(i))
	}
}

// takeBack forgets what was observed since, for what was put aside.
func (d *dreams) takeBack() {
	for i := range d.models {
		m := &d.models[i]
		d.drop(uint32(i))
		m.gaps, m.kept, m.at = m.kept, m.gaps[:0], m.keptAt
		if m.known() {
			d.next.Set(uint32(i), int64(d.now.Add(d.draw(m).span)))
		}
	}
}

// remove is forget for a model that has gone. What comes before and after it is back makes no gap.
func (d *dreams) remove(id wire.ModelID) {
	if int(id) < len(d.models) {
		d.drop(uint32(id))
		d.models[id].seen = false
		d.models[id].kept, d.models[id].keptAt = d.models[id].kept[:0], 0
	}
}

func (d *dreams) drop(id uint32) {
	m := &d.models[id]
	m.gaps, m.at = m.gaps[:0], 0
	d.next.Remove(id)
}
