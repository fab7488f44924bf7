package transport

import (
	"errors"
	"fmt"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// Who is refused for an hour asks at growing intervals, and not more often for it when
// the refusal comes as a link that ends at once; one that was served begins anew.
func TestBackoffOfRefusals(t *testing.T) {
	no := fmt.Errorf("%w: another token", ErrRejected)
	for what, lived := range map[string]mono.Dur{"at the handshake": 0, "on the link": 20 * mono.Millisecond} {
		var b backoff
		now, attempts := mono.Time(1), 0
		for ; now < mono.Time(3600*mono.Second); attempts++ {
			pause := b.next(now, lived, no)
			if pause < backoffMax || pause > refusedMax || pause > max(backoffMax, now.Sub(0)/refusedPart) {
				t.Fatalf("%s: a pause of %v after %v", what, pause, now.Sub(0))
			}
			now = now.Add(pause)
		}
		if attempts > 160 {
			t.Errorf("%s: %d attempts in an hour", what, attempts)
		}
		if pause := b.next(now, livedMin, no); pause != backoffMax {
			t.Errorf("%s: after a link that was served, a pause of %v", what, pause)
		}
		if pause := b.next(now, 0, ErrUnreachable); pause > backoffMax {
			t.Errorf("%s: a peer that is away is waited for %v", what, pause)
		}
	}
}

// A peer that is away is asked for twice a second, and at once after a link.
func TestBackoffOfAbsence(t *testing.T) {
	var b backoff
	for i, want := range []mono.Dur{1, 2, 4, 8, 10, 10} {
		if got := b.next(0, 0, ErrUnreachable); got != want*backoffMin {
			t.Errorf("pause %d is %v", i, got)
		}
	}
	if got := b.next(0, mono.Second, nil); got != backoffMin {
		t.Errorf("after a link: %v", got)
	}
}

// A failure is told once, when it changes, and at growing intervals.
func TestFailuresTold(t *testing.T) {
	var f failure
	told := 0
	for i := range 7200 { // an hour, twice a second
		err := fmt.Errorf("%w: read 10.0.0.1:%d: reset", ErrUnreachable, 30000+i)
		if f.tell(mono.Time(i)*mono.Time(500*mono.Millisecond), err) {
			told++
		}
	}
	if told < 5 || told > 7 { // at 0, 1, 3, 7, 15, 31 minutes
		t.Errorf("told %d times in an hour", told)
	}
	if !f.tell(mono.Time(3601*mono.Second), errors.New("another reason")) {
		t.Error("another reason was not told")
	}
}
