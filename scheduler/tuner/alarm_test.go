package tuner

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// A shadow's peak is the largest share that it lost in a pass: passes of few requests do not count, and
// it fades.
func TestPeak(t *testing.T) {
	var s shadow
	for _, c := range []struct {
		served, bad, decay, want float64
	}{{950, 50, 1, 0.05}, {0, 100, 1, 0.05}, {990, 10, 1, 0.05}, {990, 10, 0.5, 0.025}, {900, 100, 1, 0.1}, {0, 0, 0.5, 0.05}, {0, 1000, 1, peakMost}} {
		s.tally.fresh = modelTally{served: c.served, bad: c.bad}
		if s.sees(c.decay); s.peak != c.want {
			t.Errorf("%+v: peak %v", c, s.peak)
		}
	}
}

// Losses that the shadow of the setting in force had in a burst ring no alarm in the next burst, far
// more do; so does a part of them where the shadow never lost anything.
func TestAlarmKnowsBursts(t *testing.T) {
	for _, c := range []struct {
		peak, lost float64
		rings      bool
	}{{0, 0.01, false}, {0, 0.08, true}, {0.05, 0.08, false}, {0.05, 0.2, true}, {peakMost, 0.4, true}} {
		d := newDrive(Config{}, 1, 4, line(t, 0.5, 4, 40, 200))
		d.run(5)
		d.Tuner.alarm.last = d.now.Add(-mono.Second) // the last pass is old
		d.shadowOf(d.Choice().Setting).peak = c.peak
		before := d.Choice()
		d.Answered(int(10_000*(1-c.lost)), int(10_000*c.lost))
		d.shadow = 0 // no pass has ended
		if changed := d.Choose(d.now.Add(Turn)); changed != c.rings || d.alarm.holds(d.now.Add(Turn)) != c.rings {
			t.Errorf("%+v: %v in force, after it %v, changed %v", c, before.Setting, d.Choice().Setting, changed)
		}
	}
}

// A shadow that loses requests has a peak, and other GPUs begin without one.
func TestPeakOfALoad(t *testing.T) {
	d := newDrive(Config{}, 1, 1, line(t, 0.5, 8, 30, 4000)) // far too many for one GPU
	if d.run(5); d.shadowOf(batching.Setting{}).peak == 0 {
		t.Error("no peak under overload")
	}
	d.SetGPUs(4)
	for _, s := range d.shadows {
		if s.peak != 0 {
			t.Errorf("%v: peak %v of GPUs that there were", s.setting, s.peak)
		}
	}
}
