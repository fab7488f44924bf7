package tuner

import (
	"math"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/rank"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Invariant 2: over ten seconds the share is held, give or take a pass, whatever a replay takes and however
// much comes, and used up where there is enough to do: where dreams fill the time, a part of it suffices.
func TestShare(t *testing.T) {
	long(t)
	for _, c := range []struct{ rate, each, share float64 }{
		{250, 300e-9, 0.02}, {20_000, 300e-9, 0.02}, {20_000, 3e-6, 0.02}, {200_000, 300e-9, 0.02}, {5000, 300e-9, 0.002}, {5000, 1e-6, 0.1},
	} {
		d := newDrive(Config{Share: c.share}, 1, 32, eight(t, c.rate)...)
		d.each = c.each
		d.run(10)
		if c.rate < 1000 { // until the tallies are half full dreams take all that is left
			d.run(200)
		}
		before := d.spent
		d.run(10)
		used := (d.spent - before) / 10
		pass := float64(d.passLimit()*len(d.shadows)) * c.each / 10
		t.Logf("%v/s, %v ns a replay: %.3f %% used of %v %%, a pass is %.3f %%", c.rate, 1e9*c.each, 100*used, 100*c.share, 100*pass)
		least, most := c.share, c.share
		if c.rate < 1000 { // in the drive's turns of 0.1 s
			least, most = 0.5*c.share, 0.75*c.share
		}
		if used > 1.03*most+pass || used < 0.97*least-pass {
			t.Errorf("%v/s, %v ns a replay: %.3f %% of a processor, the share is %v %%", c.rate, 1e9*c.each, 100*used, 100*c.share)
		}
	}
}

// A Tuner that has more arrivals than it can replay listens no longer until it has replayed those, and forgets
// what lies between: no gap is made of it. What it missed counts as load all the same.
func TestDeaf(t *testing.T) {
	d := newDrive(Config{}, 1, 32, eight(t, 100_000)...)
	d.run(2)
	deaf, heard := 0, 0
	for range 300_000 {
		id, deadline := d.arrival()
		if d.now >= d.turn {
			d.tune()
		}
		was := len(d.Tuner.next)
		listens := d.Listens()
		d.Arrive(d.now, id, deadline)
		if !listens && len(d.Tuner.next) != was {
			t.Fatal("a Tuner that does not listen has heard")
		}
		if listens {
			heard++
			m := &d.dreams.models[id]
			if m.at > 0 && m.gaps[(m.at-1)%gapsMax].span > 20*mono.Millisecond {
				t.Fatalf("a gap of %v at 12,500/s", m.gaps[(m.at-1)%gapsMax].span)
			}
		} else {
			deaf++
		}
		if n := len(d.Tuner.next); n > passMost || n > d.passLimit()*11/10 {
			t.Fatalf("%d arrivals are kept, at most about %d", n, d.passLimit())
		}
	}
	if deaf == 0 || heard == 0 {
		t.Errorf("%d heard, %d not", heard, deaf)
	}
	if got, want := d.load.mean, 100_000*Turn.Seconds(); math.Abs(got-want) > 0.02*want {
		t.Errorf("%.0f requests a window, %v came", got, want)
	}
}

// Missed requests are load: who does not hand them in while nobody listens changes nothing.
func TestMissedCount(t *testing.T) {
	d := newDrive(Config{}, 1, 32, eight(t, 100_000)...)
	missed := 0
	for range 300_000 {
		id, deadline := d.arrival()
		if d.now >= d.turn {
			d.Missed(missed)
			missed = 0
			d.tune()
		}
		if d.Listens() {
			d.Arrive(d.now, id, deadline)
		} else {
			missed++
		}
	}
	if got, want := d.load.mean, 100_000*Turn.Seconds(); math.Abs(got-want) > 0.05*want {
		t.Errorf("%.0f requests a window, %v came", got, want)
	}
}

// Work does at most what it is asked for, and goes on where it stopped; nothing while Choose has not looked.
func TestWorkInParts(t *testing.T) {
	whole, parts := newDrive(Config{}, 3, 2, four(t, 300)...), newDrive(Config{}, 3, 2, four(t, 300)...)
	for range 50 {
		whole.run(0.1)
		end := whole.now
		for parts.now < end {
			id, deadline := parts.arrival()
			if parts.now >= parts.turn {
				parts.turn = parts.now.Add(Turn)
				replayed := 0
				for {
					n := parts.Work(parts.now, 7)
					replayed += n
					if n > 7 {
						t.Fatalf("%d replayed, at most 7 asked for", n)
					}
					if n == 0 {
						break
					}
				}
				parts.Spent(float64(replayed) * parts.each)
				parts.Choose(parts.now)
			}
			parts.Arrive(parts.now, id, deadline)
		}
	}
	for i, s := range whole.shadows {
		if p := parts.shadows[i]; p.tally.all != s.tally.all || p.now != s.now {
			t.Fatalf("%v in parts: %+v at %v, at once %+v at %v", s.setting, p.tally.all, p.now, s.tally.all, s.now)
		}
	}
	if whole.Choice() != parts.Choice() {
		t.Errorf("in parts %v, at once %v", parts.Choice(), whole.Choice())
	}
}

// Nothing is allocated in steady state, with headroom or without.
func TestNoAllocations(t *testing.T) {
	for _, c := range []struct {
		headroom rank.Headroom
		gpus     int
		flows    []flow
	}{{rank.Headroom{}, 8, eight(t, 4000)}, {rank.Headroom{Limited: true, Share: 0.25}, 8, eight(t, 4000)}, {rank.Headroom{}, 4, blocked(t)}} {
		d := newDrive(Config{Headroom: c.headroom}, 1, c.gpus, c.flows...)
		d.run(30)
		if n := testing.AllocsPerRun(20_000, func() {
			id, deadline := d.arrival()
			if d.now >= d.turn {
				d.tune()
			}
			d.Arrive(d.now, id, deadline)
		}); n != 0 {
			t.Errorf("headroom %v, %d GPUs: %v allocations an arrival", c.headroom, c.gpus, n)
		}
	}
}
