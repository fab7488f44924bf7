package batching

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/wire"
)

// takeAt takes a batch at 10 s under the target policy; the example's target
// on 3 GPUs is 3 (l = 8 s).
func takeAt10(t *testing.T, change func(*Config), deadlines ...float64) (batch []uint32, drops []Dropped) {
	t.Helper()
	m := example(t, func(c *Config) {
		c.Policy = PolicyTarget
		if change != nil {
			change(c)
		}
	})
	push(t, m, deadlines...)
	batch, drops, _ = m.Take(sec(10), sec(10), nil, nil)
	return batch, drops
}

// Overload: the first six are too old for a batch of 3, and nearly all would
// be lost one by one. They are shed, the others get their batch.
func TestShedsUnderOverload(t *testing.T) {
	old := []float64{16.5, 16.6, 16.7, 16.8, 17, 17.5, 18.5, 19, 19.5, 20}
	batch, drops := takeAt10(t, nil, old...)
	if len(batch) != 3 || len(drops) != 6 {
		t.Fatalf("batch of %d, %d dropped, want 3 and 6", len(batch), len(drops))
	}
	for _, d := range drops {
		if d.Reason != wire.ReasonShed {
			t.Fatalf("dropped for %v, want shed", d.Reason)
		}
	}
	batch, drops = takeAt10(t, func(c *Config) { c.Policy = PolicyHead }, old...)
	if len(batch) != 1 || len(drops) != 0 {
		t.Fatalf("head: batch of %d, %d dropped, want 1 and 0", len(batch), len(drops))
	}
}

// Two old heads before others with time: the next GPU can serve those, so
// the head's small batch loses less than shedding.
func TestKeepsWhatTheNextGPUServes(t *testing.T) {
	batch, drops := takeAt10(t, nil, 16.5, 16.6, 22, 22, 22)
	if len(batch) != 1 || len(drops) != 0 {
		t.Fatalf("batch of %d, %d dropped, want 1 and 0", len(batch), len(drops))
	}
}

// Few requests: all that wait fit in the head's batch, or a target batch is
// not there to be had. Nothing is shed.
func TestNothingShedWithoutATarget(t *testing.T) {
	for _, c := range []struct {
		deadlines []float64
		batch     int
	}{{[]float64{16.5}, 1}, {[]float64{17.5, 30}, 2}, {[]float64{16.5, 30, 30}, 1},
		{[]float64{16.5, 16.5, 16.5, 16.5, 16.5, 16.5, 16.5, 16.5}, 1}} {
		batch, drops := takeAt10(t, nil, c.deadlines...)
		if len(batch) != c.batch || len(drops) != 0 {
			t.Errorf("%v: batch of %d, %d dropped, want %d and 0", c.deadlines, len(batch), len(drops), c.batch)
		}
	}
}

// Where batches do not pay, none is waited for: l(b) nearly proportional to b.
func TestWeakBatchingShedsNothing(t *testing.T) {
	p, err := profile.Linear(3*mono.Second, mono.Second/50, 8)
	if err != nil {
		t.Fatal(err)
	}
	batch, drops := takeAt10(t, func(c *Config) { c.Profile, c.SLO = p, 16*mono.Second }, 13.5, 13.6, 13.7, 20, 20, 20, 20, 20)
	if len(batch) != 1 || len(drops) != 0 {
		t.Fatalf("batch of %d, %d dropped, want 1 and 0", len(batch), len(drops))
	}
}

// The supply estimate follows what is granted, and a pause is no scarcity.
func TestSupply(t *testing.T) {
	var s supply
	if g := s.gap(1200, 3); g != 400 {
		t.Fatalf("unknown supply: gap %v, want the share's 400", g)
	}
	for at := mono.Time(0); at < 100_000; at += 300 {
		s.add(at, 1200)
	}
	if g := s.gap(1200, 3); g < 290 || g > 310 {
		t.Fatalf("a batch of 1200 each 300: gap %v, want about 300", g)
	}
	s.add(10_000_000, 1200)
	if g := s.gap(1200, 1); g > 700 {
		t.Fatalf("gap %v after a pause, want the memory of before", g)
	}
	for at := mono.Time(20_000_000); at < 21_000_000; at += 5000 {
		s.add(at, 1200)
	}
	if g := s.gap(1200, 2); g != 600 {
		t.Fatalf("gap %v, want no worse than the share's 600", g)
	}
}

func TestParsePolicy(t *testing.T) {
	for name, want := range map[string]Policy{"": PolicyTarget, "target": PolicyTarget, "head": PolicyHead} {
		if got, err := ParsePolicy(name); err != nil || got != want {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	if _, err := ParsePolicy("tail"); err == nil {
		t.Error("an unknown policy was taken")
	}
}

// A forecast counts the whole queue, also what lies beyond its last batch: 400
// wait, due 50 ms apart, and a GPU comes each 100 ms: one is served, one lost.
func TestForecastOfALongQueue(t *testing.T) {
	m := example(t, func(c *Config) { c.Policy, c.GPUs, c.QueueMax = PolicyTarget, 100, 1000 })
	for i := range 400 {
		push(t, m, 16+0.05*float64(i))
	}
	if lost := m.losses(0, sec(10), false) / lossUnit; lost < 150 || lost > 250 {
		t.Fatalf("forecast loses %d of 400, want about half", lost)
	}
}
