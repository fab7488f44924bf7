package tuner

import "testing"

// A load that stays the same is remembered for long; a jump leaves of that no more than of a short memory.
func TestMemoryIsAsLongAsTheLoad(t *testing.T) {
	long(t)
	d := newDrive(Config{Share: 0.2}, 1, 32, eight(t, 20_000)...)
	d.run(40)
	if n := d.mirror.tally.requests(); n < 4*d.memory() {
		t.Errorf("after 40 s of the same load %.0f requests are remembered, want %.0f at least", n, 4*d.memory())
	}
	for i := range d.flows {
		d.setRate(i, d.flows[i].rate/2)
	}
	d.run(1)
	if n := d.mirror.tally.requests(); n > d.memory() {
		t.Errorf("1 s after the load was halved %.0f requests are remembered, want %.0f at most", n, d.memory())
	}
}

// A full tally is halved, so it stays bounded.
func TestMemoryIsBounded(t *testing.T) {
	d := newDrive(Config{}, 1, 1, four(t, 100)...)
	d.mirror.tally.all = modelTally{served: memoryLong*d.memory() + 1}
	d.shadow = len(d.shadows)
	d.Choose(d.now)
	if n, most := d.mirror.tally.requests(), memoryLong*d.memory(); n > most {
		t.Errorf("%.0f requests are remembered, at most %.0f", n, most)
	}
}

// Losses that nothing of the past explains shorten the memory, though as many requests come as before; those
// that chance explains do not, nor do fewer.
func TestStaleMemoryIsShort(t *testing.T) {
	for _, c := range []struct {
		bad, lately float64 // shares
		stale       bool
	}{{0.01, 0.01, false}, {0.01, 0.012, false}, {0.01, 0.03, true}, {0, 0.0001, false}, {0, 0.01, true}, {0.03, 0.01, false}} {
		d := newDrive(Config{}, 1, 1, four(t, 100)...)
		for _, s := range d.shadows {
			s.tally.all = modelTally{served: 1e6 * (1 - c.bad), bad: 1e6 * c.bad}
			s.lately = modelTally{served: 20_000 * (1 - c.lately), bad: 20_000 * c.lately}
		}
		d.choose(d.now)
		want := 1e6
		if c.stale {
			want = d.memory()
		}
		if n := d.mirror.tally.requests(); n < 0.99*want || n > 1.01*want {
			t.Errorf("%v were lost, lately %v: %.0f requests are remembered, want %.0f", c.bad, c.lately, n, want)
		}
	}
}
