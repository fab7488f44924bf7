package overrun

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

const ms = mono.Millisecond

// turns feeds a turn each millisecond, every so many of them that late; it counts
// the changes.
func turns(l *Lateness, now *mono.Time, span mono.Dur, every int, late mono.Dur) (changes int) {
	for i := range int(span / ms) {
		*now = now.Add(ms)
		d := mono.Dur(0)
		if every > 0 && i%every == 0 {
			d = late
		}
		if l.Add(*now, d) {
			changes++
		}
	}
	return changes
}

// The bound is the pause that comes again and again; it stays where nothing
// changes, and goes when the pauses do.
func TestLateness(t *testing.T) {
	for _, c := range []struct {
		every int
		late  mono.Dur
	}{{200, 5 * ms}, {2000, 20 * ms}, {2, 150 * mono.Microsecond}} {
		var l Lateness
		now := mono.Time(0)
		if turns(&l, &now, 20*mono.Second, c.every, c.late); l.Bound() != c.late {
			t.Errorf("%v every %d ms: bound %v", c.late, c.every, l.Bound())
		}
		if n := turns(&l, &now, 20*mono.Second, c.every, c.late); n != 0 || l.Bound() != c.late {
			t.Errorf("%v every %d ms: %d changes while nothing changed", c.late, c.every, n)
		}
		if n := turns(&l, &now, 10*mono.Second, 0, 0); n != 1 || l.Bound() != 0 {
			t.Errorf("bound %v ten seconds after the last pause, %d changes", l.Bound(), n)
		}
	}
}

// One pause is none, and two are none; one of long ago is forgotten over a span
// without turns, too.
func TestLatenessOfFew(t *testing.T) {
	var l Lateness
	now := mono.Time(0)
	turns(&l, &now, 5*mono.Second, 2500, 20*ms)
	if l.Bound() != 0 {
		t.Errorf("two pauses: bound %v, want 0", l.Bound())
	}
	turns(&l, &now, mono.Second, 300, 20*ms)
	now = now.Add(mono.Second)
	if l.Add(now, 0); l.Bound() != 20*ms {
		t.Errorf("six pauses: bound %v, want 20 ms", l.Bound())
	}
	now = now.Add(60 * mono.Second)
	l.Add(now, 0)
	now = now.Add(2 * mono.Second)
	if l.Add(now, 0); l.Bound() != 0 {
		t.Errorf("a minute later: bound %v", l.Bound())
	}
}

func TestLatenessAllocatesNothing(t *testing.T) {
	var l Lateness
	now := mono.Time(0)
	if n := testing.AllocsPerRun(100, func() { now = now.Add(lateSlot); l.Add(now, ms) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
