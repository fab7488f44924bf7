package emugpu

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/transport/mono"
)

// ran waits for a run's end.
func ran(d executor.Device, slot int) error {
	done := make(chan error, 1)
	d.Launch(&executor.Batch{Model: slot, Size: 1, Finish: func(_, _ mono.Time, err error) { done <- err }})
	return <-done
}

// copied waits for a copy's end.
func copied(p *Paged, slot int) executor.Copied {
	done := make(chan executor.Copied, 1)
	p.Load(slot, func(c executor.Copied) { done <- c })
	return <-done
}

// A copy takes what its model says, never less, beside what runs; without weights nothing runs.
func TestPaged(t *testing.T) {
	defer goleak.VerifyNone(t)
	clock := NewClock(1)
	p := clock.NewPaged(Memory{Pages: 7}, 0)
	p.Put(1, Model{Profile: line(t)[0], Bytes: 100, Copy: 3 * mono.Millisecond})
	if p.Pages() != 7 {
		t.Errorf("%d pages", p.Pages())
	}
	if err := ran(p, 1); !errors.Is(err, errNoWeights) {
		t.Errorf("it runs without weights: %v", err)
	}
	if c := copied(p, 1); c.Err != nil || c.Bytes != 100 || c.End.Sub(c.Start) < 3*mono.Millisecond {
		t.Errorf("%+v", c)
	}
	if err := ran(p, 1); err != nil {
		t.Error(err)
	}
	p.Unload(1, func() {})
	if err := ran(p, 1); !errors.Is(err, errNoWeights) {
		t.Errorf("it runs without weights: %v", err)
	}
	p.Drop(1)
	for _, slot := range []int{0, 1, 5} {
		if c := copied(p, slot); !errors.Is(c.Err, errNoCopy) {
			t.Errorf("slot %d: %+v", slot, c)
		}
	}
	p.Put(1, Model{Profile: line(t)[0], Copy: mono.Second})
	p.Load(1, func(executor.Copied) { t.Error("a copy ends after Close") })
	p.Close()
	p.Load(1, func(executor.Copied) { t.Error("a copy begins after Close") })
	clock.Close()
}

// Copies of devices that share a bus follow one another; of the others they do not wait for it.
func TestSharedBus(t *testing.T) {
	defer goleak.VerifyNone(t)
	const each = 5 * mono.Millisecond
	clock := NewClock(1)
	ends := make(chan executor.Copied, 8)
	for range 4 {
		p := clock.NewPaged(Memory{Pages: 1, Shared: true}, 0)
		p.Put(0, Model{Profile: line(t)[0], Copy: each})
		p.Load(0, func(c executor.Copied) { ends <- c })
	}
	alone := clock.NewPaged(Memory{Pages: 1}, 0)
	alone.Put(0, Model{Profile: line(t)[0], Copy: each})
	begin := mono.Now()
	if c := copied(alone, 0); c.Start > mono.Now() || c.Start < begin {
		t.Errorf("a copy over a bus of its own waits: %+v", c)
	}
	first := <-ends
	for i := 1; i < 4; i++ {
		if c := <-ends; c.Start.Sub(first.Start) < mono.Dur(i)*each || c.End.Sub(c.Start) < each {
			t.Errorf("copy %d began %v after the first", i, c.Start.Sub(first.Start))
		}
	}
	clock.Close()
}
