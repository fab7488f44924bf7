package cuda

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// After a first run a device that serves others is left alone for nine times its length, up to a
// bound for the model, but not where it serves nothing, nor where requests wait for the model.
func TestRests(t *testing.T) {
	const ms = mono.Millisecond
	serves := true
	r := &rests{busy: func() bool { return serves }, left: 100 * ms}
	if d := r.next(); d != 0 {
		t.Errorf("before the first run it rests %v", d)
	}
	r.last = 10 * ms
	for i, want := range []mono.Dur{90 * ms, 0, 10 * ms, 0} {
		serves = i != 1
		if d := r.next(); d != want {
			t.Errorf("rest %d is %v, want %v", i, d, want)
		}
	}
	if d := (&rests{last: ms, left: restsMost}).next(); d != 0 {
		t.Errorf("requests wait for it, and it rests %v", d)
	}
}

// Long runs are fewer: each size has one in each slot, and one that is timed.
func TestLongRunsAreFewer(t *testing.T) {
	for last, want := range map[mono.Dur]int{longRun: 2 * (1 + warmRuns), longRun + 1: 3} {
		r, n := &rests{}, 0
		for slot := range 2 {
			for run := range 1 + warmRuns {
				if r.skips(slot, run) {
					break
				}
				n++
				r.last = last
			}
		}
		if n != want {
			t.Errorf("runs of %v: %d, want %d", last, n, want)
		}
	}
}
