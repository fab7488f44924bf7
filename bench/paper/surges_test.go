package paper

import "testing"

// The rates of the surges: what is offered before and in them.
func TestSurgeJob(t *testing.T) {
	for _, u := range surgesAll() {
		j, rate, n := u.job(Symphony, 1, 2), 0.0, 0
		for _, m := range j.Models {
			rate, n = rate+m.Rate, n+1
			if m.Count != 0 || (m.Profile == "") != (u.height == 0) {
				t.Errorf("%s: %+v", u.name, m)
			}
		}
		if rate < 0.999*u.rate || rate > 1.001*u.rate || j.Seconds != 60 {
			t.Errorf("%s: %g r/s of %d models, %g s", u.name, rate, n, j.Seconds)
		}
	}
}

// A tenfold load for a second, on one GPU that carries the mean: what is bad is
// bad around the surge, and the first surge does not count.
func TestSurgeCounts(t *testing.T) {
	u := surge{models: []Model{{Name: "one", Alpha: 1, Beta: 5, SLO: 50}}, gpus: 1, rate: 200, height: 10, length: 1}
	f, err := u.job(SymphonyDefer, 1, 2).run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Bad == 0 || f.AroundBad != f.Bad {
		t.Errorf("%d bad, %d of them around the surge", f.Bad, f.AroundBad)
	}
	if want := int64(200*29 + 2000); f.Arrived < want*9/10 || f.Arrived > want*11/10 {
		t.Errorf("%d requests, want about %d", f.Arrived, want)
	}
	if want := int64(200*2 + 2000); f.AroundArrived < want*9/10 || f.AroundArrived > want*11/10 {
		t.Errorf("%d requests around the surge, want about %d", f.AroundArrived, want)
	}
}

func TestClaimNotWorse(t *testing.T) {
	s := newSession(t, t.Context(), t.TempDir())
	for _, c := range []struct {
		ours, theirs []float64
		want         Verdict
	}{
		{[]float64{0, 0, 0}, []float64{0, 0, 0}, yes},
		{[]float64{.01, .02, .03}, []float64{.02, .03, .04}, yes},
		{[]float64{.02, .03, .04}, []float64{.01, .02, .03}, no}, // by the same each time
		{[]float64{.01, .03, .02}, []float64{.02, .01, .02}, Draw},
		{[]float64{.02}, []float64{.01}, no},
	} {
		claimNotWorse(s, "it", c.ours, c.theirs)
		if got := s.section.Claims[len(s.section.Claims)-1].verdict(); got != c.want {
			t.Errorf("%v against %v: %s, want %s", c.ours, c.theirs, got, c.want)
		}
	}
}

// A scheduler that stands still makes requests hopeless whose budget is as short.
func TestPauseJob(t *testing.T) {
	w := Workload{GPUs: 2, Models: []Model{{Name: "tight", Alpha: 1, Beta: 2, SLO: 12}}}
	j := pauseJob{System: Symphony, Workload: w, Length: 20, Every: 500, Rate: 200, Seed: 1, Seconds: 5, Warmup: 1}
	f, err := j.run(nil)
	if err != nil {
		t.Fatal(err)
	}
	if f.Arrived < 800 || f.Hopeless == 0 || f.Bad < f.Hopeless {
		t.Errorf("%+v", f)
	}
}
