package tuner

import (
	"math"
	"math/rand/v2"
	"testing"
)

// scale multiplies the rates of all flows.
func (d *drive) scale(by float64) {
	for i := range d.flows {
		d.setRate(i, by*d.flows[i].rate)
	}
}

// bursts hands in bursts of 0.3 s, three times the rate, one every 5 s, and says how much shadow time of them was heard
// on average.
func (d *drive) bursts(n int) (heard float64) {
	for range n {
		d.run(4.7)
		at := d.clock
		d.scale(3)
		d.run(0.3)
		heard += d.clock.Sub(at).Seconds() / float64(n)
		d.scale(1.0 / 3)
	}
	return heard
}

// Where there is time for a part of the arrivals only, bursts are heard whole nevertheless, what is lost in them is known and
// remembered, and the share is held.
func TestBurstsAreHeardAndRemembered(t *testing.T) {
	long(t)
	d := newDrive(Config{}, 1, 20, eight(t, 9700)...)
	d.run(10)
	before := d.spent
	heard := d.bursts(6)
	if heard < 0.26 {
		t.Errorf("of 0.3 s of a burst %.3f s were heard", heard)
	}
	d.run(3)
	used, pass := (d.spent-before)/33, (1+burstTimes)*float64(d.passLimit()*len(d.shadows))*d.each/33
	if used > 1.03*ShareDefault+pass {
		t.Errorf("%.2f %% of a processor were used, a pass is %.3f %%", 100*used, 100*pass)
	}
	if n := d.mirror.tally.requests(); n < 0.5*d.memory() {
		t.Errorf("after bursts %.0f requests are remembered, want %.0f", n, 0.5*d.memory())
	}
	if bad, _ := d.shadows[0].tally.badRates(); bad < 0.001 {
		t.Errorf("a setting that cannot carry the bursts is thought to lose %.4f %%", 100*bad)
	}
}

// A longer burst is heard for so many arrivals more than a pass has, and a load that stays high does not stop the choice.
func TestBurstIsHeardForSoLong(t *testing.T) {
	d := newDrive(Config{}, 1, 64, eight(t, 9700)...)
	d.run(8)
	d.scale(3)
	at := d.turns
	for d.Tuner.burst.over < burstTimes*d.passLimit() {
		if d.run(0.01); d.turns > at+20 {
			t.Fatalf("after 2 s %d arrivals more were heard", d.Tuner.burst.over)
		}
	}
	d.run(0.5)
	if most := burstTimes*d.passLimit() + 2; d.Tuner.burst.over > most {
		t.Errorf("%d arrivals more were heard, at most %d are", d.Tuner.burst.over, most)
	}
}

// A load that is back within loadBurst is what it was; one that stays is another.
func TestLoadBack(t *testing.T) {
	for _, c := range []struct {
		seconds, times float64
		back           bool
	}{{0.3, 3, true}, {1, 3, true}, {0.5, 0, true}, {4, 3, false}} {
		w := &watch{Rand: rand.New(rand.NewPCG(3, 12))}
		w.changes(10, 9000, 1)
		windows, mean := w.windows, w.mean
		if c.times > 0 {
			w.changes(c.seconds, 9000*c.times, 1)
		} else {
			w.at += c.seconds
		}
		w.changes(0.7, 9000, 1)
		if back := w.windows > windows; back != c.back || w.left > 0 && c.back {
			t.Errorf("%+v: %d windows of a mean of %.0f before, %d of %.0f after it", c, windows, mean, w.windows, w.mean)
		}
	}
}

// Dreams are not drawn from a burst's gaps once it is over, nor forgotten what was before it.
func TestBurstsAreNotDreamtOf(t *testing.T) {
	d := newDrive(Config{}, 2, 8, eight(t, 160)...)
	d.run(20)
	d.scale(4)
	d.run(0.6)
	d.scale(1.0 / 4)
	d.run(0.5)
	for i := range d.dreams.models {
		m, sum := &d.dreams.models[i], 0.0
		for _, g := range m.gaps {
			sum += g.span.Seconds()
		}
		if mean := sum / float64(len(m.gaps)); len(m.gaps) < gapsMax || math.Abs(20*mean-1) > 0.25 {
			t.Errorf("model %d: %d gaps of %.2f ms, want %d of 50 ms", i, len(m.gaps), 1e3*mean, gapsMax)
		}
	}
}

// What is heard in a burst counts for as many requests as came, by what one of the quiet time counts for.
func TestBurstsWeigh(t *testing.T) {
	for _, c := range []struct {
		heard          bool
		came, replayed int
		want           float64
	}{{true, 9000, 9000, 0.5}, {true, 9000, 3000, 1.5}, {false, 9000, 3000, 1}, {true, 9000, 1, burstWeight}, {true, 1, 9000, 1.0 / burstWeight}} {
		d := newDrive(Config{}, 1, 1, four(t, 100)...)
		b := &d.Tuner.burst
		*b = burst{heard: c.heard, came: c.came, usualCame: 1000, usualReplayed: 500}
		d.weigh(c.replayed)
		if got := 1 + d.mirror.tally.more; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: a request counts for %v", c, got)
		}
		if b.came != 0 || b.heard {
			t.Errorf("%+v: the next pass begins with %+v", c, *b)
		}
	}
}

// What was seen before a burst does not come back where the GPUs are others since; nor does a burst end the forgetting that
// they begin.
func TestNothingComesBackToOtherGPUs(t *testing.T) {
	d := newDrive(Config{}, 1, 32, eight(t, 2000)...)
	d.run(10)
	before := d.mirror.tally.requests()
	d.scale(3)
	d.run(0.5)
	if !d.Tuner.burst.aside {
		t.Fatal("nothing is put aside in a burst")
	}
	d.SetGPUs(30)
	d.scale(1.0 / 3)
	d.run(0.6)
	if n := d.mirror.tally.requests(); n > before/2 {
		t.Errorf("%.0f requests are remembered of other GPUs, %.0f were", n, before)
	}
	d.SetGPUs(32)
	d.other()
	d.load.left = 1
	if d.heed(loadBack); d.news != loadOther {
		t.Errorf("other GPUs are forgotten in a burst: %v", d.news)
	}
}

// A model that goes while counts are put aside leaves them, too.
func TestModelGoesInABurst(t *testing.T) {
	d := newDrive(Config{}, 1, 8, four(t, 2000)...)
	d.run(5)
	for _, s := range d.shadows {
		s.tally.putAside(1)
	}
	d.RemoveModel(2)
	s := d.mirror.tally
	s.fade(0)
	if s.takeBack(); s.models[2].served != 0 || s.all.served < 100 {
		t.Errorf("%v of a model that has gone, %v of all", s.models[2].served, s.all.served)
	}
	sum := 0.0
	for i := range s.models {
		sum += s.models[i].served + s.models[i].bad
	}
	if math.Abs(sum-s.requests()) > 1e-6*sum {
		t.Errorf("%v requests of all models, %v in all", sum, s.requests())
	}
}
