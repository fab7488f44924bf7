package batching

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// section 3.3's model, l(b) = b + 5 s: what no load can save is dropped at once, and the candidate is
// what fits behind the floor.
func TestFloor(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12, 12.75, 14, 20)
	m.Update(0, nil)
	m.SetFloor(sec(7)) // alone until 13
	drops := m.Update(sec(1), nil)
	if want := []Dropped{{0, wire.ReasonCold}, {1, wire.ReasonCold}}; !slices.Equal(drops, want) {
		t.Fatalf("dropped %v, want %v", drops, want)
	}
	if want := (Candidate{Batch: Batch{Size: 2}, Exec: sec(7), Latest: sec(7)}); m.Candidate() != want {
		t.Fatalf("%+v, want %+v", m.Candidate(), want)
	}
	if m.NextWake() != sec(7).Add(1) {
		t.Errorf("next wake %v, want just after the latest start, 7 s", m.NextWake())
	}
	m.SetFloor(sec(7.5)) // the load takes longer: one fits
	m.Update(sec(2), nil)
	if want := (Candidate{Batch: Batch{Size: 1}, Exec: sec(7.5), Latest: sec(8)}); m.Candidate() != want {
		t.Fatalf("%+v, want %+v", m.Candidate(), want)
	}
	m.SetFloor(sec(3)) // it took less: both fit, and may wait for a third
	m.Update(sec(3), nil)
	if want := (Candidate{Batch: Batch{Size: 2}, Exec: sec(6), Latest: sec(7)}); m.Candidate() != want {
		t.Fatalf("%+v, want %+v", m.Candidate(), want)
	}
}

// A head that has no time left anyway is no victim of the floor.
func TestFloorIsNotToBlame(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12)
	m.Update(0, nil)
	m.SetFloor(sec(100))
	if drops := m.Update(sec(6).Add(1), nil); len(drops) != 1 || drops[0].Reason != wire.ReasonDeadline {
		t.Errorf("dropped %v, want one for its deadline: it came too late for any GPU", drops)
	}
}

// A batch for a GPU that is free before the floor starts at the floor, with what fits there.
func TestTakeStartsAtTheFloor(t *testing.T) {
	m := example(t, nil)
	push(t, m, 12, 12, 12, 12)
	m.Update(0, nil)
	m.SetFloor(sec(4)) // l(3) = 8
	batch, drops, start := m.Take(sec(1), Offer{FreeAt: sec(2)}, nil, nil)
	if len(batch) != 3 || len(drops) != 0 || start != sec(4) {
		t.Errorf("a batch of %d starts at %v, %v dropped; want 3 at 4 s", len(batch), start, drops)
	}
	m.SetFloor(mono.Past)
	m.Update(sec(1), nil)
	if batch, _, start = m.Take(sec(1), Offer{FreeAt: sec(2)}, nil, nil); len(batch) != 1 || start != sec(2) {
		t.Errorf("a batch of %d starts at %v, want 1 when the GPU is free, at 2 s", len(batch), start)
	}
}

// The start that a floor held back teaches the opening nothing, the one after it does; nor does a candidate
// that a load left too little time.
func TestFloorTeachesNothing(t *testing.T) {
	m := example(t, func(c *Config) { c.Window, c.SLO = WindowDeferred, 24*mono.Second })
	m.rivals = true
	offer := Offer{Rivals: true, FreeAt: mono.Past}
	push(t, m, 24)
	m.SetFloor(sec(17.5)) // past its frontrun, 24 - l(2)
	m.Update(0, nil)
	if batch, _, start := m.Take(sec(17), offer, nil, nil); len(batch) != 1 || start != sec(17.5) {
		t.Fatalf("a batch of %d starts at %v", len(batch), start)
	}
	if m.opening.starts != 0 || m.opening.lead != 0 {
		t.Errorf("a start that the floor held back was learnt: %+v", m.opening)
	}
	m.Push(sec(20), sec(44), 0, 0)
	m.Update(sec(20), nil)
	m.SetFloor(sec(37.9))
	m.Update(sec(37), nil)
	m.Update(sec(39), nil) // no GPU came
	if m.opening.starts != 0 || m.opening.lost != 0 || m.lost != 0 {
		t.Errorf("what waited for weights and found no GPU was learnt: %+v, %d lost", m.opening, m.lost)
	}
	m.Push(sec(40), sec(64), 0, 0)
	m.Update(sec(40), nil)
	m.Take(sec(58), offer, nil, nil)
	if m.opening.starts != 1 {
		t.Errorf("%d starts were learnt, want the one after", m.opening.starts)
	}
}

// floored is a model with floors beside a list of what waits in it.
type floored struct {
	r     *rapid.T
	m     *Model
	cfg   Config
	now   mono.Time
	floor mono.Time
	waits map[uint32]mono.Time // slot -> deadline
	next  uint32
}

// Whatever comes and however floors move: nothing starts before the floor, what is dropped could not be
// served, as cold only where it is the floor's fault, and what is kept can be.
func TestFloorHistories(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p, err := profile.Linear(mono.Dur(rapid.IntRange(0, 4).Draw(r, "alpha")), mono.Dur(rapid.IntRange(1, 20).Draw(r, "beta")), 6)
		if err != nil {
			r.Fatal(err)
		}
		cfg := Config{Profile: p, SLO: 60, QueueMax: 20, Policy: Policy(rapid.IntRange(0, 1).Draw(r, "policy")),
			Window: Window(rapid.IntRange(0, 3).Draw(r, "window")), Timeout: 20, Share: OneGPU,
			Delay: Delay{Ctrl: mono.Dur(rapid.IntRange(0, 3).Draw(r, "ctrl")), Data: mono.Dur(rapid.IntRange(0, 1).Draw(r, "data"))}}
		f := &floored{r: r, m: NewModel(cfg), cfg: cfg, floor: mono.Past, waits: map[uint32]mono.Time{}}
		for range rapid.IntRange(1, 60).Draw(r, "events") {
			f.now = f.now.Add(mono.Dur(rapid.IntRange(0, 12).Draw(r, "passes")))
			f.event()
		}
	})
}

func (f *floored) event() {
	switch rapid.IntRange(0, 7).Draw(f.r, "event") {
	case 0:
		f.floor = f.now.Add(mono.Dur(rapid.IntRange(-10, 60).Draw(f.r, "floor")))
		f.m.SetFloor(f.floor)
	case 1:
		f.m.SetSetting(Setting{Haste: uint8(rapid.IntRange(0, HasteAll).Draw(f.r, "haste"))})
	case 2:
		f.take()
	default:
		d := f.now.Add(mono.Dur(rapid.IntRange(0, 80).Draw(f.r, "slo")))
		if f.m.Push(f.now, d, 0, f.next) {
			f.waits[f.next] = d
			f.next++
		}
	}
	f.dropped(f.m.Update(f.now, nil))
	f.stands()
}

// alone is the earliest end of a request that runs alone, from an instant on.
func (f *floored) alone(from mono.Time) mono.Time {
	return max(from, f.now.Add(f.cfg.Delay.Of(1))).Add(f.cfg.Profile.Latency(1))
}

func (f *floored) dropped(drops []Dropped) {
	for _, d := range drops {
		deadline, there := f.waits[d.Slot]
		switch delete(f.waits, d.Slot); {
		case !there:
			f.r.Fatalf("slot %d is dropped, and does not wait", d.Slot)
		case d.Reason == wire.ReasonShed:
		case d.Reason == wire.ReasonDeadline && deadline >= f.alone(mono.Past),
			d.Reason == wire.ReasonCold && (deadline < f.alone(mono.Past) || deadline >= f.alone(f.floor)):
			f.r.Fatalf("at %v, floor %v: deadline %v is dropped, %v", f.now, f.floor, deadline, d.Reason)
		}
	}
}

// stands checks the candidate against what waits.
func (f *floored) stands() {
	c, first := f.m.Candidate(), mono.Never
	for _, d := range f.waits {
		first = min(first, d)
		if d < f.alone(f.floor) {
			f.r.Fatalf("at %v, floor %v: deadline %v waits, and cannot be met", f.now, f.floor, d)
		}
	}
	if (c.Size > 0) != (len(f.waits) > 0) || f.m.Len() != len(f.waits) {
		f.r.Fatalf("%d wait of %d, candidate %+v", f.m.Len(), len(f.waits), c)
	}
	if c.Size == 0 {
		return
	}
	size := int(c.Size)
	if c.Exec < max(f.floor, f.now.Add(f.cfg.Delay.Of(size))) || c.Exec > c.Latest || c.Latest.Add(f.cfg.Profile.Latency(size)) != first {
		f.r.Fatalf("at %v, floor %v: candidate %+v, the first is due at %v", f.now, f.floor, c, first)
	}
	if f.m.NextWake() <= f.now {
		f.r.Fatalf("at %v the candidate's time has passed at %v", f.now, f.m.NextWake())
	}
}

func (f *floored) take() {
	free := f.now.Add(mono.Dur(rapid.IntRange(-5, 20).Draw(f.r, "free")))
	batch, drops, start := f.m.Take(f.now, Offer{FreeAt: free, GPUs: 1, Share: OneGPU}, nil, nil)
	f.dropped(drops)
	if len(batch) == 0 {
		return
	}
	if start < max(free, f.floor, f.now.Add(f.cfg.Delay.Of(len(batch)))) {
		f.r.Fatalf("at %v a batch of %d starts at %v, the GPU is free at %v, the floor %v", f.now, len(batch), start, free, f.floor)
	}
	for _, slot := range batch {
		if end := start.Add(f.cfg.Profile.Latency(len(batch))); end > f.waits[slot] {
			f.r.Fatalf("a batch of %d ends at %v, one of its requests is due at %v", len(batch), end, f.waits[slot])
		}
		delete(f.waits, slot)
	}
}

// Floors that have passed change nothing: a model of a resident pool is as it was.
func TestPastFloorsChangeNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		plain, other := hastyAt(r), hastyAt(r)
		now := mono.Time(0)
		for i := range rapid.IntRange(1, 60).Draw(r, "events") {
			now = now.Add(mono.Dur(rapid.IntRange(0, 9).Draw(r, "passes")))
			other.SetFloor(now.Add(-mono.Dur(rapid.IntRange(0, 9).Draw(r, "floor"))))
			d, take := now.Add(mono.Dur(rapid.IntRange(0, 80).Draw(r, "slo"))), rapid.IntRange(0, 3).Draw(r, "take") == 0
			for _, m := range []*Model{plain, other} {
				m.Push(now, d, 0, uint32(i))
			}
			a, b := plain.Update(now, nil), other.Update(now, nil)
			if !slices.Equal(a, b) || plain.Candidate() != other.Candidate() {
				r.Fatalf("at %v: %v, %+v and %v, %+v", now, a, plain.Candidate(), b, other.Candidate())
			}
			if take {
				_, a, start := plain.Take(now, Offer{FreeAt: now}, nil, nil)
				_, b, again := other.Take(now, Offer{FreeAt: now}, nil, nil)
				if !slices.Equal(a, b) || start != again || plain.opening != other.opening {
					r.Fatalf("at %v: %v, %v and %v, %v", now, a, start, b, again)
				}
			}
		}
	})
}

func hastyAt(r *rapid.T) *Model {
	p, err := profile.Linear(2, 9, 6)
	if err != nil {
		r.Fatal(err)
	}
	return NewModel(Config{Profile: p, SLO: 60, QueueMax: 20, Share: OneGPU, Delay: Delay{Ctrl: 1}})
}
