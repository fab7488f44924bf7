package paper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/policy/tuned"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/scheduler/policy"
	"github.com/symphony-serving/symphony/scheduler/tuner"
	"github.com/symphony-serving/symphony/transport/mono"
)

// choices are the settings that Symphony chose in a run, in their order.
type choices struct {
	at      []mono.Time
	setting []batching.Setting
}

// watch is Symphony, and each run that it begins is noted here anew.
func (c *choices) watch() scenario.Policy {
	return scenario.Policy{New: func(cfg policy.Config) policy.Scheduler {
		*c = choices{at: []mono.Time{0}, setting: tuner.Settings()[:1]}
		return tuned.New(cfg, tuned.Options{Chose: func(now mono.Time, t *tuner.Tuner) {
			c.at, c.setting = append(c.at, now), append(c.setting, t.Choice().Setting)
		}})
	}}
}

func (c *choices) copy() choices { return choices{slices.Clone(c.at), slices.Clone(c.setting)} }

// shares tells for which part of a span, in seconds, each setting was in force.
func (c *choices) shares(from, to float64) string {
	type share struct {
		name string
		part float64
	}
	var list []share
	changes := 0
	for i, at := range c.at {
		begin, end := max(from, mono.Dur(at).Seconds()), to
		if i+1 < len(c.at) {
			end = min(to, mono.Dur(c.at[i+1]).Seconds())
		}
		if begin >= end {
			continue
		}
		if changes++; begin == from {
			changes = 0
		}
		name, part := c.setting[i].String(), (end-begin)/(to-from)
		if k := slices.IndexFunc(list, func(s share) bool { return s.name == name }); k >= 0 {
			list[k].part += part
		} else {
			list = append(list, share{name, part})
		}
	}
	slices.SortStableFunc(list, func(a, b share) int { return cmp.Compare(b.part, a.part) })
	var text []string
	for _, s := range list {
		text = append(text, fmt.Sprintf("%s %s", s.name, Percent(s.part)))
	}
	return fmt.Sprintf("%s; changes %d", strings.Join(text, ", "), changes)
}
