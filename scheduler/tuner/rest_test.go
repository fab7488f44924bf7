package tuner

import (
	"testing"

	"github.com/symphony-serving/symphony/transport/mono"
)

// blocked are two models whose batches run for up to 5 ms, and one that may wait for 0.27 ms, for four GPUs.
func blocked(t testing.TB) []flow {
	return []flow{line(t, 0.64, 0.29, 6.1, 2600), line(t, 0.31, 0.15, 8.1, 1400), line(t, 0.13, 0.1, 0.5, 1000)}
}

// roomOf is the shadow with room.
func roomOf(t *testing.T, tu *Tuner) *shadow {
	for _, s := range tu.tried() {
		if s.setting.Room {
			if twin := s.rest.twin.setting; twin.Room || s.setting.Cap != twin.Cap || s.setting.Haste != twin.Haste {
				t.Fatalf("%v is the twin of %v", twin, s.setting)
			}
			return s
		}
	}
	t.Fatal("no setting with room")
	return nil
}

// The setting with room rests while none would be left, or one of many GPUs is free soon enough, and has what its twin has.
func TestRest(t *testing.T) {
	long(t)
	alike, strong := four(t, 300), eight(t, 17_000)
	mild := append(eight(t, 60_000), line(t, 0.5, 1, 11.5, 100)) // room would be left to the last model, which needs none
	for _, c := range []struct {
		what  string
		gpus  int
		flows []flow
		rests bool
	}{
		{"one GPU", 1, alike, true},
		{"models alike", 16, strong, true},
		{"64 GPUs, one of which is free soon", 64, mild, true},
		{"a tight model on four GPUs", 4, blocked(t), false},
	} {
		d := newDrive(Config{}, 3, c.gpus, c.flows...)
		d.run(8)
		s := roomOf(t, d.Tuner)
		if s.rest.now != c.rests {
			t.Errorf("%s: rests %v, want %v", c.what, s.rest.now, c.rests)
		}
		if same := s.tally.all == s.rest.twin.tally.all; same != c.rests {
			t.Errorf("%s: it has what its twin has: %v", c.what, same)
		}
		if want := len(d.shadows) - 1; c.rests && d.awake() != want-1 || !c.rests && d.awake() != want { // nor does the one of cheap requests
			t.Errorf("%s: %d of %d replay", c.what, d.awake(), want)
		}
	}
}

// Once a tight model comes it wakes, learns, and is taken. What it had meanwhile is not chosen in its twin's place.
func TestWake(t *testing.T) {
	long(t)
	flows := blocked(t)
	flows[2].rate = 0
	d := newDrive(Config{}, 3, 4, flows...)
	d.chose = func() {
		if roomOf(t, d.Tuner).learning() && d.Choice().Setting.Room {
			t.Fatalf("at %v %v is chosen while it rests, or learns", d.now, d.Choice().Setting)
		}
	}
	d.run(15)
	s := roomOf(t, d.Tuner)
	if !s.rest.now {
		t.Fatal("it does not rest")
	}
	d.setRate(2, 1000)
	d.run(20)
	if !d.Choice().Setting.Room || s.rest.now {
		t.Errorf("%v is in force, it rests: %v", d.Choice(), s.rest.now)
	}
	d.setRate(2, 0)
	d.run(1)
	if !d.Choice().Setting.Room || s.rest.now {
		t.Errorf("%v is in force, it rests: %v; want neither another one nor rest so soon", d.Choice(), s.rest.now)
	}
	d.take(d.now, s.rest.twin.outlook())
	d.alarm.until = d.now.Add(60 * mono.Second) // what was lost before speaks for room for long: no choice
	d.run(restAfter.Seconds() + 5)
	if !s.rest.now {
		t.Errorf("it does not rest again: %v is in force, twin tight %v, own %v, needed %v ago", d.Choice().Setting, s.rest.twin.sched.Tight(s.now), s.sched.Tight(s.now), s.now.Sub(s.rest.need))
	}
}
