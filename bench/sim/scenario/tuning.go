package scenario

import (
	"github.com/symphony-serving/symphony/bench/policy/tuned"
	"github.com/symphony-serving/symphony/bench/sim"
)

// Tuning is what the tuner of a scheduler that has one did: one row for each setting.
type Tuning struct {
	Changes  int             `json:"changes"`
	Settings []TunedSettings `json:"settings"`
}

// TunedSettings is a setting, for how much of the run it was in force, and what the tuner's
// simulation made of the last arrivals with it.
type TunedSettings struct {
	Setting string  `json:"setting"` // share of the deferral that is spent, and switches
	Share   float64 `json:"share"`   // of the run, its warm-up included
	Bad     float64 `json:"expected_bad_rate"`
	Worst   float64 `json:"expected_worst_bad_rate"`
	Wait    float64 `json:"expected_wait"` // mean, as a share of the budget
	Cost    float64 `json:"cost"`
}

// tuning is that of a finished run; nil where the policy has no tuner.
func tuning(r *sim.Result) *Tuning {
	s, ok := r.Scheduler.(*tuned.Scheduler)
	if !ok || s.Tuner() == nil {
		return nil
	}
	t := &Tuning{Changes: s.Tuner().Choice().Changes}
	all := 0.0
	for _, k := range s.Spells() {
		all += k.Span.Seconds()
	}
	for i, o := range s.Tuner().Outlooks() {
		row := TunedSettings{Setting: o.Setting.String(), Bad: o.Bad, Worst: o.Worst, Wait: o.Wait, Cost: o.Cost}
		if all > 0 {
			row.Share = s.Spells()[i].Span.Seconds() / all
		}
		t.Settings = append(t.Settings, row)
	}
	return t
}
