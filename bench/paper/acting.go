package paper

import (
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/sim/acting"
	"github.com/symphony-serving/symphony/bench/workload"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/control/scaling"
	"github.com/symphony-serving/symphony/scheduler/profile"
	"github.com/symphony-serving/symphony/transport/mono"
)

const (
	second = mono.Second
	minute = 60 * second
	hour   = 60 * minute

	dayHours = 150 // of figure 15
	// costMost bounds the GPU hours that are paid for, against those that are needed.
	costMost = 1.25
	badMost  = 0.01
)

// actingConfig is the configuration's defaults, with room to grow.
func actingConfig() scaling.Config {
	return scaling.Config{Interval: 10 * second, CoolUp: minute, CoolDown: 10 * minute, Lead: 5 * minute, Max: 2 * fig15GPUs}
}

// actingScatter is how much longer than the lead time a GPU may take, as a share of it.
const actingScatter = 0.3

// actingFig: figure 15's day once more, and now what the autoscaler advises is done.
func actingFig(s *Session) error {
	s.Setting("epochs of 10 s; an addition 1 minute after any change, a removal 10; GPUs serve 5 to 6.5 minutes after they were ordered; the measured need scatters by 1 %%, from seed %d", seedFirst)
	d, err := actingDay(Pick(s, 10, 5))
	if err != nil {
		return err
	}
	if err := s.PlotSized("acting", plot.Size{W: 8, H: 7}, d.picture()); err != nil {
		return err
	}
	d.claim(s, "figure 15's 150 hours")
	if err := s.Table("acting", []string{"time h", "need", "GPUs", "paid for", "bad rate", "in a jump"}, d.table()); err != nil {
		return err
	}
	if err := actingRequests(s); err != nil {
		return err
	}
	if err := actingWaves(s); err != nil {
		return err
	}
	if err := actingDead(s); err != nil {
		return err
	}
	s.Note("The 150 hours are not compressed here: rates, swings and bursts are figure 15's, the cluster is a fluid with the flat top of section 3.5 (bench/sim/acting), and the need is batching.Need of the rates. A jump is a step of a model's rate (bursts of 2.5 times, twice 1.7 times for all): what is bad from it until the lead time, a cool-down of additions and two epochs have passed no autoscaler could have met. GPU hours are those from the order to the removal, so those that boot, drain or are dead are paid for.")
	s.Note("Held against simulated requests, %g times as fast: 600 s stand for the 150 hours, with a lead time of 1 s (15 minutes), epochs of half a second, and a removal 5 s after any change.", 150*3600/600.0)
	return nil
}

// actDay is a day with acting.
type actDay struct {
	at               []float64 // h
	need, gpus, paid []float64
	bad              []float64
	jump             []bool
	changes          []acting.Change
	cost             float64 // GPU hours paid for, of those needed
	badAll, badCalm  float64
	worst            float64 // bad rate of the worst epoch of figure 15 outside jumps
	over             int     // of them above badMost
	counted          int
}

// jumpsOf are the instants at which figure 15's rates step up, as shares of the day.
func jumpsOf() (at []float64) {
	for i := range fig15Models {
		at = append(at, 0.05+0.9*float64(i)/fig15Models)
	}
	return append(at, 0.22, 0.74)
}

// inJump reports whether an instant is within a span of a step up.
func inJump(at, span, day float64) bool {
	return slices.ContainsFunc(jumpsOf(), func(j float64) bool { return at >= j*day && at < j*day+span })
}

// load is the need and the rate of figure 15's models at an instant of its day.
func (j *changingJob) load() (func(at mono.Time) (need, rate float64), error) {
	type of struct {
		rate    float64
		slo     mono.Dur
		profile *profile.Profile
		over    *workload.Profile
	}
	var all []of
	for i := range j.Models {
		m := &j.Models[i]
		p, err := profile.Linear(mono.FromMillis(m.Alpha), mono.FromMillis(m.Beta), batchMax)
		if err != nil {
			return nil, err
		}
		over, err := workload.ParseProfile(m.Profile)
		if err != nil {
			return nil, err
		}
		all = append(all, of{m.Rate, mono.FromMillis(m.SLO), p, over})
	}
	return func(at mono.Time) (need, rate float64) {
		for i := range all {
			r := all[i].rate * all[i].over.At(at)
			need += batching.Need(all[i].profile, all[i].slo, r/float64(mono.Second))
			rate += r
		}
		return need, rate
	}, nil
}

// actingDay runs the 150 hours in steps of so many seconds.
func actingDay(step int) (*actDay, error) {
	j, _, err := changingWorkload(dayHours * 3600)
	if err != nil {
		return nil, err
	}
	load, err := j.load()
	if err != nil {
		return nil, err
	}
	cfg := actingConfig()
	d := &actDay{}
	day := float64(dayHours * 3600)
	first, _ := load(0)
	span := float64(cfg.Lead)*(1+actingScatter)/float64(second) + (cfg.CoolUp + 2*cfg.Interval).Seconds()
	const buckets = 1200 // in the picture
	var n, bad, calm, badCalm [fig15Epochs]float64
	r := acting.Run(acting.Config{Group: cfg, Load: load, Start: int(first+math.Sqrt(first)) + 1, Duration: dayHours * hour, Step: mono.Dur(step) * second, Scatter: actingScatter, Noise: 0.01, Seed: seedFirst,
		Each: func(x *acting.State) {
			at := mono.Dur(x.At).Seconds()
			in := inJump(at, span, day)
			k := min(fig15Epochs-1, int(at/day*fig15Epochs))
			n[k], bad[k] = n[k]+x.Rate, bad[k]+x.Rate*x.Bad
			if !in {
				calm[k], badCalm[k] = calm[k]+x.Rate, badCalm[k]+x.Rate*x.Bad
			}
			if len(d.at) < int(at/day*buckets)+1 {
				d.at, d.need, d.gpus = append(d.at, at/3600), append(d.need, x.Need), append(d.gpus, float64(x.GPUs))
				d.paid, d.bad, d.jump = append(d.paid, float64(x.Ordered)), append(d.bad, x.Bad), append(d.jump, in)
			}
		}})
	d.changes, d.cost, d.badAll = r.Changes, r.GPUs/r.Need, r.Bad/r.Answered
	d.count(n[:], bad[:], calm[:], badCalm[:])
	return d, nil
}

// count sums up by figure 15's epochs.
func (d *actDay) count(n, bad, calm, badCalm []float64) {
	sum, sumBad := 0.0, 0.0
	for k := range n {
		if calm[k] == 0 {
			continue
		}
		d.counted++
		share := badCalm[k] / calm[k]
		if d.worst = max(d.worst, share); share > badMost {
			d.over++
		}
		sum, sumBad = sum+calm[k], sumBad+badCalm[k]
	}
	d.badCalm = sumBad / max(1, sum)
}

func (d *actDay) claim(s *Session, what string) {
	s.Claim(Claim{What: what + ": GPU hours paid for, of those needed, at most 1.25", Paper: "not compared: ours", Ours: Number(d.cost, 3), Ratio: d.cost, Holds: d.cost <= costMost})
	s.Claim(Claim{What: what + ": bad rate outside of jumps that no lead time could meet, at most 1 %", Paper: "not compared: ours",
		Ours:  fmt.Sprintf("%.3f %% (%.3f %% with them); the worst of %d epochs %.2f %%", 100*d.badCalm, 100*d.badAll, d.counted, 100*d.worst),
		Holds: d.badCalm <= badMost && d.over <= d.counted/50})
}

func (d *actDay) table() (rows [][]string) {
	for k := range d.at {
		in := ""
		if d.jump[k] {
			in = "yes"
		}
		rows = append(rows, []string{Number(d.at[k], 3), Number(d.need[k], 1), Number(d.gpus[k], 0), Number(d.paid[k], 0), Number(d.bad[k], 4), in})
	}
	return rows
}

func (d *actDay) picture() plot.Grid {
	percent := make([]float64, len(d.bad))
	for k, b := range d.bad {
		percent[k] = 100 * b
	}
	return plot.Grid{Panels: []plot.Picture{
		plot.Lines{Y: plot.Axis{Label: "GPUs"}, Legend: plot.LegendRight, Series: []plot.Series{{Name: "need", X: d.at, Y: d.need}, {Name: "serve", X: d.at, Y: d.gpus}, {Name: "paid for", X: d.at, Y: d.paid}}},
		plot.Lines{X: plot.Axis{Label: "time (h)"}, Y: plot.Axis{Label: "bad rate (%)"}, HLines: []plot.Ref{{At: 1, Label: "1 %"}}, Series: []plot.Series{{Name: "bad rate", X: d.at, Y: percent}}},
	}}
}
