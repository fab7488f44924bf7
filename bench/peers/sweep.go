package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Trial is one setting in a sweep, by the sweep's rates.
type Trial struct {
	Case    string    `json:"case"`
	System  string    `json:"system"`
	Setting Setting   `json:"setting"`
	Rates   []float64 `json:"offered_rps"`
	InTime  []float64 `json:"in_time_rps"`
	P50     []float64 `json:"p50_ms"`
	Failed  string    `json:"failed,omitempty"` // it did not start
	Score   float64   `json:"score"`            // see score
}

// What a choice is the best for.
const (
	bestOverall  = "tuned"
	bestLow      = "tuned for low load"
	bestOverload = "tuned for overload"
)

// choice is a setting that is measured.
type choice struct {
	what    string
	setting Setting
}

// score sets each trial's mean over the rates of what it serves in time, as a share
// of the most that any trial serves at that rate.
func score(all []Trial) {
	most := map[int]float64{}
	for _, t := range all {
		for i, v := range t.InTime {
			most[i] = max(most[i], v)
		}
	}
	for i := range all {
		all[i].Score = 0
		for k, v := range all[i].InTime {
			if most[k] > 0 {
				all[i].Score += v / most[k] / float64(len(most))
			}
		}
	}
}

// best is the trial with the highest score, the earlier one of equals; false: none
// serves anything.
func best(all []Trial) (Trial, bool) {
	score(all)
	if len(all) == 0 {
		return Trial{}, false
	}
	b := slices.MaxFunc(all, func(x, y Trial) int { return cmp.Compare(x.Score, y.Score) })
	return b, b.Score > 0
}

// Choices that gain less than these shares over the best overall are not measured.
const (
	quickerBy = 0.05 // p50 at the lowest rate
	moreBy    = 0.03 // in time at the highest
)

// choose picks what is measured of a sweep: the best over all loads; the lowest p50
// at the lowest rate, of those that serve what can be served there; and the most in
// time at the highest rate.
func choose(all []Trial) []choice {
	overall, ok := best(all)
	if !ok {
		return nil
	}
	out := []choice{{bestOverall, overall.Setting}}
	low, high, last := overall, overall, len(overall.InTime)-1
	for _, t := range all {
		if len(t.InTime) <= last || t.P50[0] == 0 {
			continue
		}
		if t.InTime[0] >= 0.99*overall.InTime[0] && t.P50[0] < low.P50[0] {
			low = t
		}
		if t.InTime[last] > high.InTime[last] {
			high = t
		}
	}
	if low.P50[0] < (1-quickerBy)*overall.P50[0] {
		out = append(out, choice{bestLow, low.Setting})
	}
	if high.InTime[last] > (1+moreBy)*overall.InTime[last] && !measured(out, high.Setting) {
		out = append(out, choice{bestOverload, high.Setting})
	}
	return out
}

func measured(all []choice, s Setting) bool {
	return slices.ContainsFunc(all, func(c choice) bool { return c.setting == s })
}

// sweep tries a system's settings, appends each to the result, and chooses.
func (r *run) sweep(ctx context.Context, sys system, c Case) ([]choice, error) {
	all, err := r.trials(ctx, sys.stages(c), func(s Setting) (Trial, error) { return r.try(ctx, sys, c, s) })
	score(all)
	r.result.Sweep = append(r.result.Sweep, all...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out, err := chosen(all, err)
	for _, ch := range out {
		r.say("  %s, %s: %v", sys.name(), ch.what, ch.setting)
	}
	return out, err
}

// trials tries settings, stage by stage, each from the best so far. One that fails
// may be what the system does not take, so the next is tried all the same; where the
// first two do, with nothing in time, the system is given up: each takes its time to
// fail. The error is that of what failed, if nothing was in time.
func (r *run) trials(ctx context.Context, stages []stage, try func(Setting) (Trial, error)) ([]Trial, error) {
	var all []Trial
	var failure error
	now := Setting{}
	for _, next := range stages {
		for _, s := range r.thin(next(now)) {
			t, err := try(s)
			if ctx.Err() != nil {
				return all, ctx.Err()
			}
			all, failure = append(all, t), errors.Join(failure, err)
			if _, ok := best(all); !ok && len(all) == 2 && all[0].Failed != "" && t.Failed != "" {
				return all, failure
			}
		}
		b, ok := best(all)
		if !ok {
			return all, failure
		}
		if now = b.Setting; r.cfg.Quick {
			break
		}
	}
	return all, nil
}

// chosen is what is measured of these trials. Where nothing was in time it is the
// first setting with which the system started, for the table shall show it; failure
// is the error where there is none either.
func chosen(all []Trial, failure error) ([]choice, error) {
	if out := choose(all); len(out) > 0 {
		return out, nil
	}
	for _, t := range all {
		if t.Failed == "" {
			return []choice{{bestOverall, t.Setting}}, nil
		}
	}
	return nil, failure
}

// thin leaves the first and the last of a quick run's settings.
func (r *run) thin(all []Setting) []Setting {
	if !r.cfg.Quick || len(all) <= 2 {
		return all
	}
	return []Setting{all[0], all[len(all)-1]}
}

// try starts a system with a setting and drives it at the sweep's rates.
func (r *run) try(ctx context.Context, sys system, c Case, s Setting) (Trial, error) {
	t := Trial{Case: c.Name, System: sys.name(), Setting: s, Rates: c.Sweep}
	err := r.with(ctx, sys, c, s, func(srv *server) error {
		for _, rate := range c.Sweep {
			rep, err := r.drive(ctx, srv, c, offer{r.cfg.Arrivals[0], rate, r.cfg.SweepWarmup, r.cfg.SweepSpan, r.cfg.Seed})
			if err != nil {
				return err
			}
			t.InTime, t.P50 = append(t.InTime, rep.All.Goodput), append(t.P50, rep.All.P50)
			if rep.All.Goodput < collapsed*rate {
				break // nor will it at more
			}
		}
		return nil
	})
	for len(t.InTime) < len(t.Rates) {
		t.InTime, t.P50 = append(t.InTime, 0), append(t.P50, 0)
	}
	if err != nil {
		t.Failed = err.Error()
	}
	text := ""
	for i := range t.Rates {
		text += fmt.Sprintf("%7.0f", t.InTime[i])
	}
	r.say("  %-60s in time%s  p50 %5.1f ms %s", s, text, t.P50[0], t.Failed)
	return t, err
}

// collapsed is the share in time below which higher rates are not tried.
const collapsed = 0.02
