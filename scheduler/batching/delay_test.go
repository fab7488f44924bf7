package batching

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A MiB takes a model what its inputs have of it, whatever way the bound comes, and what each input takes
// beside that is added.
func TestDelayBySize(t *testing.T) {
	const us = mono.Microsecond
	bound := Delay{Ctrl: 100 * us, Data: 5 * us, MiB: 400 * us}
	p, err := profile.Linear(1, 2, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Profile: p, SLO: 100 * mono.Millisecond, QueueMax: 16, Bytes: 1 << 19, Delay: bound}
	m := NewModel(cfg)
	want := Delay{Ctrl: 100 * us, Data: 205 * us}
	look := func(when string) {
		t.Helper()
		if got := m.Delay(); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	look("at first")
	m.SetDelay(Delay{Ctrl: 100 * us})
	m.SetDelay(bound)
	look("set")
	m.SetConfig(cfg)
	look("configured anew")
	now := mono.Time(mono.Second)
	for i := range 4 {
		if !m.Push(now, now.Add(50*mono.Millisecond), 0, uint32(i)) {
			t.Fatal("no room")
		}
	}
	m.Update(now, nil)
	if c := m.Candidate(); c.Size != 4 || c.Delay != 920*us {
		t.Errorf("a batch of %d is planned with %v, want 4 with 920us", c.Size, c.Delay)
	}
	if d := (Delay{MiB: 400 * us}).Sized(0); d != (Delay{}) {
		t.Errorf("inputs of no size: %+v", d)
	}
}
