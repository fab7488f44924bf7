package overrun

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// The bound follows what batches really overrun, is clamped, ignores single
// outliers, and forgets a pause after Age.
func TestOverrunBound(t *testing.T) {
	o := New(10 * mono.Millisecond)
	now := mono.Time(0)
	feed := func(n int, late mono.Dur) {
		for range n {
			now = now.Add(10 * mono.Millisecond)
			o.Add(now, late)
		}
	}
	feed(256, -mono.Millisecond)
	if o.Bound() != 0 {
		t.Errorf("early batches: bound %v, want 0", o.Bound())
	}
	feed(2, 50*mono.Millisecond)
	feed(254, 300*mono.Microsecond)
	if o.Bound() != 300*mono.Microsecond {
		t.Errorf("two outliers: bound %v, want 300 us", o.Bound())
	}
	feed(64, 50*mono.Millisecond)
	if o.Bound() != 10*mono.Millisecond {
		t.Errorf("always late: bound %v, want the clamp of 10 ms", o.Bound())
	}
	now = now.Add(Age)
	feed(every, 100*mono.Microsecond)
	if o.Bound() != 100*mono.Microsecond {
		t.Errorf("%v after the pause: bound %v, want 100 us", Age, o.Bound())
	}
}
