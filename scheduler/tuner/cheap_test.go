package tuner

import "testing"

// unlike are three models whose requests take about 0.2 ms each, and one whose take 4, for two GPUs that carry about 1,500 requests/s of them.
func unlike(t testing.TB, times float64) []flow {
	return []flow{line(t, 0.2, 1, 30, 1000*times), line(t, 0.2, 1, 40, 1000*times), line(t, 0.25, 1, 50, 1000*times), line(t, 4, 8, 60, 250*times)}
}

// cheapOf is the shadow of cheap requests.
func cheapOf(t *testing.T, tu *Tuner) *shadow {
	for _, s := range tu.tried() {
		if s.setting.Cheap {
			return s
		}
	}
	t.Fatal("no setting of cheap requests")
	return nil
}

// In an overload of models that are unlike it wakes and is taken: more of all requests are served, and of the models that are cheap nearly all.
// Where models are alike, or less comes, it is not. When the overload is over it is given up, and rests again.
func TestCheapInAnOverload(t *testing.T) {
	long(t)
	for _, h := range []bool{false, true} {
		cfg := Config{}
		cfg.Headroom.Limited, cfg.Headroom.Share = h, 0.25
		d := newDrive(cfg, 5, 2, unlike(t, 0.7)...)
		d.run(8)
		if s := cheapOf(t, d.Tuner); !s.rest.now || d.Choice().Setting.Cheap {
			t.Fatalf("at 0.7 of what the GPUs carry: rests %v, in force %v", s.rest.now, d.Choice())
		}
		for i, f := range unlike(t, 1.6) {
			d.setRate(i, f.rate)
		}
		d.run(8)
		s := cheapOf(t, d.Tuner)
		if s.rest.now || s.learning() || !d.Choice().Setting.Cheap {
			t.Fatalf("at 1.6 times that: rests %v, learns %v, in force %v", s.rest.now, s.learning(), d.Choice())
		}
		lost, _ := s.tally.badRates()
		if even, _ := s.rest.twin.tally.badRates(); even < 0.2 || lost > 0.8*even {
			t.Errorf("it loses %.3f, its twin %.3f", lost, even)
		}
		for i, m := range s.tally.models[:3] {
			if rate := m.bad / (m.bad + m.served); rate > 0.05 {
				t.Errorf("model %d, whose requests take least, loses %.3f", i, rate)
			}
		}
		for i, f := range unlike(t, 0.5) {
			d.setRate(i, f.rate)
		}
		d.run(8)
		if d.Choice().Setting.Cheap {
			t.Errorf("when it is over %v is in force", d.Choice())
		}
		d.run(restAfter.Seconds())
		if !s.rest.now {
			t.Error("it does not rest again")
		}
	}
}

// Models that are alike are not told apart, and it changes nothing.
func TestCheapOfModelsAlike(t *testing.T) {
	long(t)
	d := newDrive(Config{}, 5, 16, eight(t, 30_000)...)
	d.run(10)
	s := cheapOf(t, d.Tuner)
	lost, worst := s.tally.badRates()
	even, evenWorst := s.rest.twin.tally.badRates()
	if s.rest.now || even < 0.1 || lost < even-0.02 || worst > evenWorst+0.05 {
		t.Errorf("rests %v; loses %.3f, of the worst model %.3f, and its twin %.3f and %.3f", s.rest.now, lost, worst, even, evenWorst)
	}
}

// It is of use while GPUs are crowded and more is lost than SLOs allow, by the deferral and by what is in force, of more than a few requests.
func TestCheapIsOfUse(t *testing.T) {
	d := newDrive(Config{}, 5, 2, unlike(t, 1.6)...)
	d.run(6)
	s := cheapOf(t, d.Tuner)
	deferral, force := s.rest.twin, d.mirror
	set := func(of *shadow, requests, bad float64) {
		of.tally.all = modelTally{served: requests * (1 - bad), bad: requests * bad}
	}
	enough := 1.1 * crowdedSeen * d.memory()
	for _, c := range []struct {
		what     string
		requests float64
		deferral float64
		force    float64
		want     bool
	}{
		{"all lose a third", enough, 0.33, 0.33, true},
		{"all lose a third, of a few requests", enough / 2, 0.33, 0.33, false},
		{"what is in force loses no more than SLOs allow", enough, 0.33, 0.01, false},
		{"the deferral loses no more than SLOs allow", enough, 0.01, 0.33, false},
	} {
		set(deferral, c.requests, c.deferral)
		set(force, c.requests, c.force)
		if got := d.crowds(s, false); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
	for i := range d.flows {
		d.setRate(i, d.flows[i].rate/4)
	}
	d.run(4)
	set(deferral, enough, 0.33)
	set(force, enough, 0.33)
	if d.crowds(s, false) {
		t.Error("it is of use by what was lost before, with idle GPUs")
	}
}

// mirrored is what the scheduler's mirror has served and lost of a model from now on, in some seconds.
func (d *drive) mirrored(id int, seconds float64) (served, bad float64) {
	d.run(0.5)
	before := d.mirror.tally.models[id]
	d.run(seconds)
	after := d.mirror.tally.models[id]
	return after.served - before.served, after.bad - before.bad
}

// overloaded is a drive in which cheap requests go first.
func overloaded(t *testing.T, times float64) *drive {
	d := newDrive(Config{}, 5, 2, unlike(t, times)...)
	for range 20 {
		if d.run(1); d.Choice().Setting.Cheap {
			return d
		}
	}
	t.Fatalf("%v is in force", d.Choice())
	return nil
}

// Who is lost whole has a batch now and then all the same: what its requests take now is noticed, and it stays in the need.
func TestCheapStarvesNobodyWhole(t *testing.T) {
	long(t)
	d := overloaded(t, 3.2)
	d.run(12)
	served, bad := d.mirrored(3, 20)
	if served == 0 || served > 0.2*(served+bad) {
		t.Errorf("of the dear model %.0f requests are served and %.0f lost, want a few", served, bad)
	}
	twin := cheapOf(t, d.Tuner).rest.twin
	if own, all := d.mirror.sched.Need(d.mirror.now), twin.sched.Need(twin.now); own < 0.9*all {
		t.Errorf("a need of %.2f GPUs, of the deferral %.2f", own, all)
	}
	d.flows[3].model = line(t, 0.02, 0.1, 60, 0).model // ten times cheaper than any other
	d.AddModel(3, d.flows[3].model)
	d.run(12)
	if served, bad = d.mirrored(3, 5); bad > 0.25*served {
		t.Errorf("it is cheap now, and %.0f requests are served and %.0f lost", served, bad)
	}
}

// An overload that is over because dear requests come no more, which are few of all, is over for the setting, too.
func TestCheapIsGivenUp(t *testing.T) {
	long(t)
	for _, rate := range []float64{20, 100} {
		d := newDrive(Config{}, 5, 2, unlike(t, 0.8)...)
		d.setRate(3, 400)
		for range 20 {
			if d.run(1); d.Choice().Setting.Cheap {
				break
			}
		}
		if !d.Choice().Setting.Cheap {
			t.Fatalf("%v is in force", d.Choice())
		}
		d.setRate(3, rate)
		d.run(10)
		if d.Choice().Setting.Cheap {
			t.Errorf("%v r/s of the dear model: %v is in force after 10 s", rate, d.Choice())
		}
	}
}
