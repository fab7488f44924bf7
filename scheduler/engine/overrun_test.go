package engine

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The bound follows what batches really overrun, is clamped, ignores single
// outliers, and forgets a pause after overrunAge.
func TestOverrunBound(t *testing.T) {
	o := newOverrun(10 * mono.Millisecond)
	now := mono.Time(0)
	feed := func(n int, late mono.Dur) {
		for range n {
			now = now.Add(10 * mono.Millisecond)
			o.add(now, late)
		}
	}
	feed(256, -mono.Millisecond)
	if o.bound() != 0 {
		t.Errorf("early batches: bound %v, want 0", o.bound())
	}
	feed(2, 50*mono.Millisecond)
	feed(254, 300*mono.Microsecond)
	if o.bound() != 300*mono.Microsecond {
		t.Errorf("two outliers: bound %v, want 300 us", o.bound())
	}
	feed(64, 50*mono.Millisecond)
	if o.bound() != 10*mono.Millisecond {
		t.Errorf("always late: bound %v, want the clamp of 10 ms", o.bound())
	}
	now = now.Add(overrunAge)
	feed(overrunEvery, 100*mono.Microsecond)
	if o.bound() != 100*mono.Microsecond {
		t.Errorf("%v after the pause: bound %v, want 100 us", overrunAge, o.bound())
	}
}
