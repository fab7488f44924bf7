package tuner

import (
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// watch is a load that sees arrivals, and is asked by who comes a little late each time.
type watch struct {
	load
	*rand.Rand
	at    float64 // seconds
	asked mono.Time
}

// changes counts those of a stretch with a rate, and says when the first was seen after its begin.
func (w *watch) changes(seconds, rate, shape float64) (n int, first float64) {
	begin := w.at
	for w.at < begin+seconds {
		w.at += gamma(w.Rand, shape) / rate
		now := mono.Time(mono.FromSeconds(w.at))
		if now >= w.asked {
			w.asked = now.Add(Turn)
			if w.look(now) == loadOther {
				if n++; n == 1 {
					first = w.at - begin
				}
			}
		}
		w.arrive(now)
	}
	return n, first
}

func TestLoadChange(t *testing.T) {
	for _, c := range []struct{ rate, times float64 }{{200, 3}, {1000, 3}, {20_000, 3}, {1000, 1.0 / 3}, {1000, 10}, {20_000, 0.5}} {
		for seed := range uint64(5) {
			w := &watch{Rand: rand.New(rand.NewPCG(seed, 9))}
			w.changes(10, c.rate, 1)
			if n, first := w.changes(1, c.rate*c.times, 1); n == 0 || first > 0.3+0.02 {
				t.Errorf("seed %d: %v/s times %v: %d changes, the first after %.0f ms", seed, c.rate, c.times, n, 1000*first)
			}
		}
	}
}

// What changes little, or scatters, is no change.
func TestLoadStays(t *testing.T) {
	long(t)
	for _, c := range []struct {
		rate, shape, times float64
		most               int // in ten minutes
	}{{100, 1, 1.1, 4}, {1000, 1, 1, 0}, {1000, 1, 1.1, 0}, {10_000, 1, 1.1, 0}, {1000, 0.2, 1.1, 3}, {1000, 0.05, 1, 4}, {5000, 0.05, 1.1, 3}} {
		for seed := range uint64(2) {
			w := &watch{Rand: rand.New(rand.NewPCG(seed, 10))}
			w.changes(5, c.rate, c.shape)
			a, _ := w.changes(300, c.rate, c.shape)
			b, _ := w.changes(300, c.rate*c.times, c.shape)
			if a+b > c.most {
				t.Errorf("seed %d: %v/s of shape %v, times %v after five minutes: %d changes in ten, want at most %d", seed, c.rate, c.shape, c.times, a+b, c.most)
			}
		}
	}
}

// A silence of any length costs no time, and is no load.
func TestLoadAfterSilence(t *testing.T) {
	w := &watch{Rand: rand.New(rand.NewPCG(1, 11))}
	w.changes(30, 1000, 1)
	mean := w.mean
	w.at += 1e8
	if n, _ := w.changes(30, 1000, 1); n > 1 || w.mean < 0.9*mean || w.mean > 1.1*mean {
		t.Errorf("%d changes, %.0f requests a window after a silence and %.0f before", n, w.mean, mean)
	}
}

// A change makes the past count little.
func TestChangeFadesThePast(t *testing.T) {
	d := newDrive(Config{}, 1, 4, line(t, 0.5, 4, 40, 200))
	d.run(10)
	before := d.shadows[0].tally.all.served
	d.setRate(0, 2000)
	d.run(0.25)
	if after := d.shadows[0].tally.all.served; after > before/4 {
		t.Errorf("%.0f requests count after a change, %.0f before it", after, before)
	}
}

// A constant load is none that changes, though Choose is called a little later each time.
func TestConstantLoadThroughTheTuner(t *testing.T) {
	long(t)
	d := newDrive(Config{Share: 1e-4}, 1, 8, line(t, 0.1, 1, 40, 1000))
	d.run(60)
	if d.load.windows != loadMemory {
		t.Errorf("%d windows since the last change, want %d or more", d.load.windows, loadMemory)
	}
}
