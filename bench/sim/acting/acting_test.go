package acting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	second = mono.Second
	minute = 60 * second
	hour   = 60 * minute
)

// steady is a load that does not change.
func steady(need float64) func(mono.Time) (float64, float64) {
	return func(mono.Time) (float64, float64) { return need, 100 * need }
}

// keeps checks what holds in every run: changes are a cool-down apart, nothing is removed that
// something is left on, no drain takes the GPUs below the need, limits hold.
func keeps(t *testing.T, what string, cfg scaling.Config, r *Result) {
	t.Helper()
	up, down := cfg.CoolUp, cfg.CoolDown
	for i := 1; i < len(r.Changes); i++ {
		a, b := r.Changes[i-1], r.Changes[i]
		least := up
		if b.To < b.From {
			least = down
		}
		if d := b.At.Sub(a.At); d < least {
			t.Errorf("%s: %+v %v after %+v", what, b, d, a)
		}
		if b.To == b.From {
			t.Errorf("%s: %+v changes nothing", what, b)
		}
	}
	if r.Removed > 0 || r.Below > 0 {
		t.Errorf("%s: %d replicas removed with something on them; %d times below the need", what, r.Removed, r.Below)
	}
	if cfg.Max > 0 && r.End.Ordered > cfg.Max {
		t.Errorf("%s: %d GPUs, and at most %d are allowed", what, r.End.Ordered, cfg.Max)
	}
}

func spans() scaling.Config {
	return scaling.Config{Interval: 10 * second, CoolUp: minute, CoolDown: 10 * minute, Lead: 5 * minute, Max: 400}
}

// Square waves of any period: the size changes no more than the cool-downs allow, and each rise from
// below is met within the lead time and what it takes to notice.
func TestSquareWaves(t *testing.T) {
	cfg := spans()
	for _, period := range []mono.Dur{10 * second, 37 * second, 2 * minute, 10 * minute, 21 * minute, hour, 2 * hour} {
		for _, noise := range []float64{0, 0.03} {
			what := fmt.Sprintf("period %v, noise %g", period, noise)
			const days = 6 * hour
			r := Run(Config{Group: cfg, Load: Square(20, 100, period, 500), Start: 25, Duration: days, Noise: noise, Seed: uint64(period), Scatter: 0.3})
			keeps(t, what, cfg, &r)
			// Between two falls lies a cool-down; where nothing scatters there is one rise to a fall.
			if most := 2*int(days/cfg.CoolDown) + 2; noise == 0 && len(r.Changes) > most {
				t.Errorf("%s: %d changes in %v", what, len(r.Changes), days)
			}
			if half := period / 2; half < cfg.CoolDown && noise == 0 && len(r.Changes) > 2 {
				t.Errorf("%s: %d changes, though GPUs are never to spare for a cool-down: %+v", what, len(r.Changes), r.Changes)
			}
		}
	}
}

// Random walks of the load, of replicas that die, and of a scaler that fails: what must hold does.
func TestHistories(t *testing.T) {
	n := 24
	if testing.Short() {
		n = 10
	}
	for seed := range uint64(n) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		cfg := spans()
		cfg.Min, cfg.Max = 1+rnd.IntN(8), 60+rnd.IntN(60)
		need := 30.0
		next := mono.Time(0)
		load := func(at mono.Time) (float64, float64) {
			if at >= next {
				need = min(150, max(0, need*math.Exp(0.4*rnd.NormFloat64())))
				next = at.Add(mono.Dur(rnd.ExpFloat64() * float64(4*minute)))
			}
			return need, 200 * need
		}
		c := Config{Group: cfg, Load: load, Start: 1 + rnd.IntN(60), Unit: 1 + 3*rnd.IntN(2), Duration: 5 * hour, Noise: 0.02, Scatter: 2, Seed: seed, Drain: mono.Dur(1+rnd.IntN(60)) * second,
			Refuses: func(at mono.Time, _ int) bool { return at > mono.Time(2*hour) && at < mono.Time(3*hour) }}
		for at := mono.Time(hour); at < mono.Time(5*hour); at = at.Add(mono.Dur(rnd.ExpFloat64() * float64(10*minute))) {
			c.Events = append(c.Events, Event{At: at, Ordinal: rnd.IntN(40), Dies: rnd.IntN(2) == 0})
		}
		last := 0
		c.Each = func(s *State) {
			if s.At%mono.Time(17*second) != 0 {
				return
			}
			a := s.Group.Advice()
			if a.Size*a.PerUnit > max(cfg.Max, c.Start*max(1, c.Unit)) || a.Size < 1 {
				t.Errorf("seed %d at %v: size %d", seed, s.At, a.Size)
			}
			if a.Why == "" || a.Action == "" {
				t.Errorf("seed %d at %v: no reason", seed, s.At)
			}
			last = a.Size
		}
		r := Run(c)
		keeps(t, fmt.Sprintf("seed %d", seed), scaling.Config{CoolUp: cfg.CoolUp, CoolDown: cfg.CoolDown}, &r)
		if last == 0 {
			t.Fatal("nothing ran")
		}
	}
}

// Replicas that are routable and dead do not count. Half of them dying at once, and for ever, is
// made up for once; those that come back and die again with any rhythm change the size at most once
// within a cool-down, and hardly ever at all.
func TestDeadReplicas(t *testing.T) {
	cfg := spans()
	base := Config{Group: cfg, Load: steady(40), Start: 47, Duration: 8 * hour}
	half := base
	for i := 0; i < 47; i += 2 {
		half.Events = append(half.Events, Event{At: mono.Time(hour), Ordinal: i, Dies: true})
	}
	r := Run(half)
	keeps(t, "half of them die", cfg, &r)
	if len(r.Changes) != 1 || r.End.GPUs < 43 || r.End.GPUs > 50 || len(r.End.Group.Advice().Dead) != 24 {
		t.Errorf("%+v; %+v", r.Changes, r.End)
	}
	for _, rhythm := range []mono.Dur{20 * second, minute, 4 * minute, 7 * minute, 15 * minute, 40 * minute} {
		flap := base
		for at, dies := mono.Time(hour), true; at < mono.Time(7*hour); at, dies = at.Add(rhythm), !dies {
			for i := 0; i < 47; i += 5 {
				flap.Events = append(flap.Events, Event{At: at, Ordinal: i, Dies: dies})
			}
		}
		r := Run(flap)
		keeps(t, fmt.Sprintf("they die and come back each %v", rhythm), cfg, &r)
		most := 2
		if rhythm > cfg.CoolDown { // long enough to be believed
			most = 2*int(6*hour/(2*rhythm)) + 1
		}
		if len(r.Changes) > most {
			t.Errorf("rhythm %v: %d changes: %+v", rhythm, len(r.Changes), r.Changes)
		}
		if r.End.GPUs < 42 {
			t.Errorf("rhythm %v: %d GPUs serve in the end", rhythm, r.End.GPUs)
		}
	}
}

// After a jump the GPUs are there when the lead time and two epochs have passed; what is left of
// the jump is bad, and no more is ordered for it.
func TestAJump(t *testing.T) {
	cfg := spans()
	jump := mono.Time(2 * hour)
	met := mono.Never
	r := Run(Config{Group: cfg, Start: 25, Duration: 4 * hour, Load: func(at mono.Time) (float64, float64) {
		if at < jump {
			return 20, 20 * 500
		}
		return 100, 100 * 500
	}, Each: func(s *State) {
		if s.At > jump && met == mono.Never && s.Bad <= 0.01 {
			met = s.At
		}
	}})
	keeps(t, "a jump", cfg, &r)
	if d := met.Sub(jump); d > cfg.Lead+3*cfg.Interval {
		t.Errorf("met after %v", d)
	}
	if len(r.Changes) != 1 || r.Changes[0].To != 110 {
		t.Errorf("%+v", r.Changes)
	}
}

// What the schedule says is there when its time has come.
func TestSchedule(t *testing.T) {
	cfg := spans()
	h, err := scaling.ParseHint("30 mon-fri 08:30-18:00")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Hints = []scaling.Hint{h}
	r := Run(Config{Group: cfg, Load: steady(3), Start: 5, Duration: 7 * 24 * hour, Step: 10 * second, Each: func(s *State) {
		day, of := int(s.At/mono.Time(24*hour)), mono.Dur(s.At)%(24*hour)
		if work := day < 5 && of >= 8*hour+30*minute && of < 18*hour; work && s.GPUs < 30 {
			t.Fatalf("%v of the week: %d GPUs: %s", s.At, s.GPUs, s.Group.Advice().Why)
		} else if night := of > 18*hour+20*minute || of < 8*hour+20*minute; night && s.GPUs > 10 {
			t.Fatalf("%v of the week: %d GPUs: %s", s.At, s.GPUs, s.Group.Advice().Why)
		}
	}})
	keeps(t, "schedule", cfg, &r)
	if len(r.Changes) > 11 {
		t.Errorf("%d changes in a week: %+v", len(r.Changes), r.Changes)
	}
}

// GPUs that never come are asked for again, ever more rarely, and what comes in the end is used.
func TestNoQuota(t *testing.T) {
	cfg := spans()
	r := Run(Config{Group: cfg, Load: steady(40), Start: 10, Duration: 8 * hour, Refuses: func(at mono.Time, _ int) bool { return at < mono.Time(4*hour) }})
	keeps(t, "no quota", cfg, &r)
	if r.Repeats < 8 || r.Repeats > 30 {
		t.Errorf("%d repeats", r.Repeats)
	}
	if r.End.GPUs < 42 {
		t.Errorf("%+v", r.End)
	}
}
