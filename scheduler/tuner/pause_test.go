package tuner

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// at is an instant in milliseconds.
func at(t float64) mono.Time { return mono.Time(mono.FromMillis(t)) }

// What waits when a pause begins is too late at its end; what an idle GPU has taken is not. What comes meanwhile is heard of
// at the end, or not at all where nobody could serve it then.
func TestShadowsStandStill(t *testing.T) {
	for _, c := range []struct {
		what        string
		setting     batching.Setting
		served, bad float64
	}{
		{"the whole deferral", batching.Setting{}, 2, 1},
		{"none", batching.Setting{Haste: batching.HasteAll}, 3, 0},
	} {
		tn := small(t, 1, 8, c.setting)
		s := tn.shadows[0]
		tn.hand(s, &arrival{at(1000), 60 * ms, 0})
		tn.hand(s, &arrival{at(1010), 55 * ms, pauseMark}) // until 1065
		if s.advance(at(1064)); s.now > at(1010) {
			t.Errorf("%s: something was done in the pause, at %v", c.what, s.now)
		}
		tn.hand(s, &arrival{at(1040), 40 * ms, 0}) // 15 ms are left then: it takes 5
		tn.hand(s, &arrival{at(1050), 19 * ms, 0}) // 4 ms
		tn.hand(s, &arrival{at(1065), 60 * ms, 0})
		s.advance(at(1200))
		if got := s.tally.all; got.served != c.served || got.bad != c.bad {
			t.Errorf("%s: %g served, %g lost; want %g and %g", c.what, got.served, got.bad, c.served, c.bad)
		}
	}
}

// What came in a pause is heard of before anything that is due: three fill one batch, not the GPU three times.
func TestWhatCameInAPauseGoesTogether(t *testing.T) {
	tn := small(t, 1, 1, batching.Setting{Haste: batching.HasteAll, Alone: true})
	s := tn.shadows[0]
	tn.hand(s, &arrival{at(1000), 20 * ms, pauseMark})
	for range 3 {
		tn.hand(s, &arrival{at(1020), 60 * ms, 0})
	}
	s.advance(at(1022))
	if s.tally.all.served != 3 || s.ends.Len() != 1 {
		t.Errorf("%g served in 2 ms, in %d batches that run", s.tally.all.served, s.ends.Len())
	}
}

// A pause takes its place among the arrivals, also if it is told of late. Who does not listen does not hear of it.
func TestPaused(t *testing.T) {
	tn := small(t, 1, 8, batching.Setting{})
	tn.Paused(at(1), at(5)) // before anything came
	tn.Arrive(at(10), 0, at(70))
	tn.Paused(at(12), at(40))
	tn.Arrive(at(40), 0, at(100))
	tn.Paused(at(35), at(39)) // another loop's
	tn.Paused(at(41), at(41))
	tn.Paused(at(41), at(1042)) // stopped by hand
	tn.Paused(at(38), at(44))   // others were heard until 40
	want := []arrival{{0, 60 * ms, 0}, {at(2), 28 * ms, pauseMark}, {at(30), 60 * ms, 0}, {at(30), 4 * ms, pauseMark}}
	for i := range want {
		want[i].at += tn.next[0].at
	}
	if len(tn.next) != len(want) {
		t.Fatalf("%+v, want %+v", tn.next, want)
	}
	for i, a := range tn.next {
		if a != want[i] {
			t.Errorf("%d: %+v, want %+v", i, a, want[i])
		}
	}
	tn.deaf = true
	if tn.Paused(at(50), at(60)); len(tn.next) != len(want) {
		t.Error("it was deaf, and heard of a pause")
	}
}

// Pauses are dreamt of as often as they came, and as long, until there are none any more.
func TestDreamsOfPauses(t *testing.T) {
	d := newDreams()
	now := d.watched(rand.New(rand.NewPCG(3, 12)), 0, 100, 20, 100, 1)
	for i := range 10 {
		d.paused(at(100_000+2000*float64(i)), mono.Dur(10+i%2)*ms)
	}
	pauses, lengths := 0, mono.Dur(0)
	for _, a := range d.append(nil, now, d.now, dreamMost, 20_000) { // 200 s
		if a.model == pauseMark {
			pauses, lengths = pauses+1, lengths+a.budget
		}
	}
	if pauses < 90 || pauses > 110 || lengths < mono.Dur(pauses)*10*ms || lengths > mono.Dur(pauses)*11*ms {
		t.Errorf("%d pauses in 200 s, %v together; want one in 2 s, of 10 or 11 ms", pauses, lengths)
	}
	now = d.watched(rand.New(rand.NewPCG(4, 12)), 0, 120, 60, 100, 1)
	for _, a := range d.append(nil, now, d.now, dreamMost, 20_000) {
		if a.model == pauseMark {
			t.Fatal("there has been none for a minute")
		}
	}
}

// Pauses one after the other are not one: what is due at the end of each is done then. Those that overlap are.
func TestPausesInARow(t *testing.T) {
	for _, c := range []struct {
		length mono.Dur
		served float64
	}{{ms, 1000}, {2 * ms, 0}} {
		tn := small(t, 1, 8, batching.Setting{Haste: batching.HasteAll, Alone: true})
		s := tn.shadows[0]
		for i := range 1000 {
			tn.hand(s, &arrival{at(1000 + float64(i)), 60 * ms, 0})
			tn.hand(s, &arrival{at(1000 + float64(i)), c.length, pauseMark})
		}
		s.advance(at(2000))
		if got := s.tally.all.served; got < c.served || c.served == 0 && got > 2 {
			t.Errorf("%v each millisecond: %g served of 1000, want %g", c.length, got, c.served)
		}
	}
}
