package learn

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Whatever runs, a correction is bounded, and a larger batch never takes less than a smaller one.
func TestCorrectionsAreBounded(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		maxBatch := rapid.IntRange(1, 40).Draw(r, "max batch")
		per, base := rapid.Int64Range(0, 1e7).Draw(r, "alpha"), rapid.Int64Range(1, 1e9).Draw(r, "beta")
		l := NewLearner(0, table(t, maxBatch, func(b int) mono.Dur { return mono.Dur(per*int64(b) + base) }), mono.Dur(rapid.Int64Range(1e6, 1e10).Draw(r, "slo")), Learnt, 0)
		scale := rapid.Float64Range(1e-5, 1e5).Draw(r, "scale")
		for now := mono.Time(0); now < mono.Time(60*s); now = now.Add(500 * ms) {
			for range rapid.IntRange(0, 5).Draw(r, "runs") {
				b := rapid.IntRange(0, maxBatch+1).Draw(r, "batch")
				l.Add(now, b, mono.Dur(scale*float64(per*int64(b)+base)*rapid.Float64Range(0.5, 2).Draw(r, "noise")))
			}
			before := l.Profile()
			a := l.Step(now, rapid.Bool().Draw(r, "crowded"))
			after := l.Profile()
			if a == Keep && after != before || a == Correct && after.Alike(before) {
				r.Fatalf("advice %d, and the profile is another: %v", a, after != before)
			}
			if after.MaxBatch() != maxBatch {
				r.Fatalf("max batch %d became %d", maxBatch, after.MaxBatch())
			}
			for b := 1; b <= maxBatch && a == Correct; b++ {
				// A size may grow by more, where a smaller one has become longer than it was.
				if was, is := before.Latency(b), after.Latency(b); is < was/stepDown-1 || b == 1 && is > was*stepUp+1 || is < after.Latency(b-1) {
					r.Fatalf("l(%d) was %v and is %v; l(%d) is %v", b, was, is, b-1, after.Latency(b-1))
				}
			}
		}
	})
}

// Of a batch larger than all that ran nothing is known: that it takes longer shows at once.
func TestGuessesAreCorrected(t *testing.T) {
	l := NewLearner(0, table(t, 8, func(int) mono.Dur { return 20 * ms }), 100*ms, Learnt, 2)
	for i := range 3 {
		l.Add(mono.Time(i), 8, 60*ms)
	}
	if a := l.Step(mono.Time(s), false); a != Correct || l.Profile().Latency(8) != 60*ms || l.Profile().Latency(2) != 20*ms {
		t.Errorf("advice %d, l(2) %v, l(8) %v", a, l.Profile().Latency(2), l.Profile().Latency(8))
	}
}

// What comes from elsewhere is measured at once where nothing can be served by it; what was just measured is not.
func TestHopelessProfiles(t *testing.T) {
	slow := table(t, 2, func(int) mono.Dur { return s })
	for origin, want := range map[Origin]mono.Dur{Given: 0, Stored: 0, Measured: trialFirst, Learnt: trialFirst} {
		l := NewLearner(0, slow, 100*ms, origin, 0)
		first := mono.Dur(-1)
		var a Advice
		for now := mono.Dur(0); now <= 2*trialFirst && first < 0; now += s {
			if a = l.Step(mono.Time(now), false); a != Keep {
				first = now
			}
		}
		if advice := map[bool]Advice{false: Measure, true: Try}[origin == Learnt]; first != want || a != advice {
			t.Errorf("origin %d: advice %d after %v, want %d after %v", origin, a, first, advice, want)
		}
		if origin == Learnt && l.Profile().Latency(1) != 50*ms {
			t.Errorf("it is tried as %v", l.Profile().Latency(1))
		}
	}
	l := NewLearner(0, slow, 10*s, Stored, 0)
	if a := l.Step(0, false); a != Keep {
		t.Errorf("advice %d where the SLO is long enough", a)
	}
	if l.Restart(mono.Time(s), slow, 100*ms, Stored, 0); l.Step(mono.Time(s), false) != Measure {
		t.Error("another SLO makes it hopeless, and it is not measured")
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	l := NewLearner(0, table(t, 8, func(int) mono.Dur { return ms }), 100*ms, Measured, 0)
	now := mono.Time(0)
	if n := testing.AllocsPerRun(200, func() { now = now.Add(ms); l.Add(now, 4, ms); l.Step(now, false) }); n != 0 {
		t.Errorf("%v allocations for a run that is as planned", n)
	}
}
