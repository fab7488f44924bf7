package paper

import (
	"fmt"

	"github.com/symphony-serving/symphony/bench/sim/acting"
	"github.com/symphony-serving/symphony/transport/mono"
)

// wave is a run of one square wave.
type wave struct {
	period        mono.Dur
	changes, most int
	closest       mono.Dur // two changes to each other
	cost, bad     float64
	tooClose      bool // closer than the second one's cool-down allows
}

func wavePeriods() []mono.Dur {
	return []mono.Dur{10 * second, 20 * second, 30 * second, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 20 * minute, 30 * minute, 45 * minute, hour, 90 * minute, 2 * hour}
}

// runWave is 24 hours of a need that changes between 20 and 100 GPUs.
func runWave(period mono.Dur) wave {
	cfg := actingConfig()
	r := acting.Run(acting.Config{Group: cfg, Load: acting.Square(20, 100, period, 500), Start: 25, Duration: 24 * hour, Scatter: actingScatter, Noise: 0.01, Seed: seedFirst})
	w := wave{period: period, changes: len(r.Changes), most: 2*int(24*hour/cfg.CoolDown) + 1, closest: 24 * hour, cost: r.GPUs / r.Need, bad: r.Bad / r.Answered}
	for i := 1; i < len(r.Changes); i++ {
		a, b := r.Changes[i-1], r.Changes[i]
		d := b.At.Sub(a.At)
		w.closest = min(w.closest, d)
		w.tooClose = w.tooClose || d < cfg.CoolUp || b.To < b.From && d < cfg.CoolDown
	}
	return w
}

// actingWaves: a load that flaps changes the size no more often than the cool-downs allow.
func actingWaves(s *Session) error {
	var rows [][]string
	wrong, total := 0, 0
	for _, period := range wavePeriods() {
		w := runWave(period)
		if w.tooClose || w.changes > w.most {
			wrong++
		}
		total += w.changes
		rows = append(rows, []string{w.period.Std().String(), fmt.Sprint(w.changes), fmt.Sprint(w.most), w.closest.Std().String(), Number(w.cost, 2), Percent(w.bad)})
	}
	s.Claim(Claim{What: fmt.Sprintf("square waves of %v to %v, 20 to 100 GPUs, 24 hours each: changes no closer than the cool-downs allow", wavePeriods()[0].Std(), wavePeriods()[len(rows)-1].Std()), Paper: "not compared: ours",
		Ours: fmt.Sprintf("in %d of %d waves, with %d changes in all", len(rows)-wrong, len(rows), total), Holds: wrong == 0})
	return s.Table("acting-waves", []string{"period", "changes in 24 h", "that cool-downs allow", "closest two", "GPU hours of those needed", "bad rate"}, rows)
}

// flap is replicas that die, and come back, in a rhythm.
type flap struct {
	what   string
	rhythm mono.Dur // 0: they die once, and stay dead
	each   int      // each so many-th of 50 replicas
}

func flaps() []flap {
	return []flap{{"each 2nd dies, for ever", 0, 2}, {"each 4th dies, for ever", 0, 4}, {"each 5th, on and off for 20 s each", 20 * second, 5}, {"each 5th, on and off for 1 min each", minute, 5},
		{"each 5th, on and off for 4 min each", 4 * minute, 5}, {"each 5th, on and off for 15 min each", 15 * minute, 5}, {"each 5th, on and off for 1 h each", hour, 5}}
}

// run is 12 hours of a need of 40 GPUs; they begin to die after one.
func (f *flap) run() (r acting.Result, back mono.Dur) {
	const from = mono.Time(hour)
	c := acting.Config{Group: actingConfig(), Start: 50, Duration: 12 * hour, Scatter: actingScatter, Noise: 0.01, Seed: seedFirst,
		Load: func(mono.Time) (float64, float64) { return 40, 40 * 500 }}
	for at, dies := from, true; at < mono.Time(12*hour); at, dies = at.Add(f.rhythm), !dies {
		for i := 0; i < c.Start; i += f.each {
			c.Events = append(c.Events, acting.Event{At: at, Ordinal: i, Dies: dies})
		}
		if f.rhythm == 0 {
			break
		}
	}
	last := from // when the need was last not met
	c.Each = func(s *acting.State) {
		if s.At >= from && float64(s.GPUs) < s.Need {
			last = s.At
		}
	}
	r = acting.Run(c)
	return r, last.Sub(from)
}

// actingDead: replicas that are routable and dead do not count, and do not make others come and go.
func actingDead(s *Session) error {
	var rows [][]string
	worst, late := 0, 0
	cfg := actingConfig()
	for _, f := range flaps() {
		r, back := f.run()
		per := float64(len(r.Changes)) / float64(11*hour/cfg.CoolDown)
		if per > 1 {
			worst++
		}
		if f.rhythm == 0 && back > 2*cfg.Lead+cfg.Lead/2+cfg.CoolUp+2*cfg.Interval {
			late++
		}
		rows = append(rows, []string{f.what, fmt.Sprint(len(r.Changes)), back.Std().String(), fmt.Sprint(r.End.GPUs), fmt.Sprint(len(r.End.Group.Advice().Dead)), Number(r.GPUs/r.Need, 2), Percent(r.Bad / r.Answered)})
	}
	s.Claim(Claim{What: "replicas that are routable and dead, for ever or on and off: at most one change in a cool-down", Paper: "not compared: ours", Ours: fmt.Sprintf("in %d of %d runs", len(rows)-worst, len(rows)), Holds: worst == 0})
	s.Claim(Claim{What: "those that stay dead are made up for within the time in which they may come back, and the lead time of others", Paper: "not compared: ours", Ours: fmt.Sprintf("%d runs were late", late), Holds: late == 0})
	return s.Table("acting-dead", []string{"of 50 replicas, 40 needed", "changes in 11 h", "the need was last not met after", "GPUs in the end", "dead in the end", "GPU hours of those needed", "bad rate"}, rows)
}
