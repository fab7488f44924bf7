package batching

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// What nothing defers is due when the request came in that completed it, however much
// later the candidate was formed; what joins a candidate that stands makes it no less
// late; a deferred one is due when its order is to leave.
func TestDue(t *testing.T) {
	p, err := profile.Linear(mono.Second, 5*mono.Second, 3)
	if err != nil {
		t.Fatal(err)
	}
	m := NewModel(Config{Profile: p, SLO: 100 * mono.Second, QueueMax: 10, Window: WindowFrontrun, Delay: Delay{Ctrl: mono.Second}})
	come := func(at float64) {
		m.Push(sec(at), sec(100), 0, uint32(at))
		m.Came(sec(at))
	}
	formed := func(at, due float64) {
		t.Helper()
		m.Update(sec(at), nil)
		if got, deferred := m.Due(); got != sec(due) || deferred != (due > at) {
			t.Errorf("formed at %v: due at %v, want %v; deferred %v", at, got, sec(due), deferred)
		}
	}
	come(1)
	formed(1.5, 100-7-1) // deferred until a batch of two cannot be any more, and the way
	come(2)
	formed(2.5, 100-8-1)
	come(3)
	formed(3.5, 3) // full
	come(4)
	formed(5, 3)
	formed(6, 3) // formed anew for another reason
	if _, _, start := m.Take(sec(7), Offer{}, nil, nil); start != sec(8) {
		t.Fatalf("starts at %v", start)
	}
	formed(7, 100-7-1)
	come(8)
	come(9)
	come(10)
	formed(11, 10)
	m.Take(sec(12), Offer{}, nil, nil)
	formed(12, 100-7-1)
}
