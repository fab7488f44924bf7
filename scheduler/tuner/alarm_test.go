package tuner

import (
	"testing"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/profile"
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

// Caps and the drop policy head cost more than they show, and other settings do not.
func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		set  batching.Setting
		want float64
	}{{batching.Setting{}, 0}, {batching.Setting{Shed: true}, 0}, {batching.Setting{Head: true}, headDoubt}, {batching.Setting{Cap: 92}, capDoubt}} {
		s := shadow{setting: c.set}
		if got := s.outlook().Cost; got != c.want {
			t.Errorf("%v costs %v with nothing lost and no wait, want %v", c.set, got, c.want)
		}
	}
}

// A measured table may be longer or shorter than the one before, and counts as another profile.
func TestProfileOfAnotherLength(t *testing.T) {
	d := newDrive(Config{}, 1, 1, line(t, 0.5, 4, 40, 200))
	for _, sizes := range []int{2, 8, 1, 8} {
		table := make([]mono.Dur, sizes)
		for i := range table {
			table[i] = mono.Dur(i+1) * mono.Millisecond
		}
		p, err := profile.Table(table)
		if err != nil {
			t.Fatal(err)
		}
		d.news = loadSame
		if d.AddModel(0, policy.Model{Profile: p, SLO: 40 * mono.Millisecond}); d.news != loadDrifted {
			t.Errorf("a table of %d: the load counts as the same", sizes)
		}
	}
}
