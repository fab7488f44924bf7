package tuner

import (
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/scheduler/batching"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Choice is a setting, and why it is in force.
type Choice struct {
	Setting batching.Setting
	At      mono.Time // when it was chosen
	Changes int       // so far
	// Chosen is what its shadow made of the last arrivals, Deferral what the whole deferral did.
	Chosen, Deferral Outlook
}

// Outlook is what a setting makes of the arrivals.
type Outlook struct {
	Setting batching.Setting
	Bad     float64 // share of the requests
	Worst   float64 // of those of the model that fares worst
	Wait    float64 // mean, as a share of the budget
	Used    float64 // GPUs at a time, as a share of those that are kept; 0 where the headroom is all
	Cost    float64
}

const (
	// waitWeight is what a wait of the whole budget costs, in lost requests: 5 of a thousand. With
	// less, requests wait at half of the peak though nothing is gained; with more, losses near
	// the peak are accepted for latency.
	waitWeight = 0.005
	// worstMost of the worst model's requests count in full, and of what it loses beyond that one in worstPart: no SLO is kept then, and
	// who serves more of all requests is better. To lose another model whole (batching.Setting.Cheap) costs 3 % of all requests.
	worstMost, worstPart = 0.1, 32
	// headDoubt is what the drop policy head costs more than its shadow shows. It loses nothing for
	// tens of seconds, until by chance a queue has grown too long, and then a third of all
	// requests for ever: 23 models on 64 GPUs (the strongly batching ones of the 1080Ti zoo) at 0.95
	// of their peak. The shadow's queue may be short all the while.
	headDoubt = 0.003
	// capDoubt is the same for caps, which keep all GPUs busy with smaller batches: the mean wait is short
	// then, but the longest waits, of models with long SLOs, are long. They are worth it where losses are
	// at stake.
	capDoubt = 0.001
	// better is how much less a setting must cost than the one in force: a part of that one's cost,
	// and a constant. Two settings that are about as good must not take turns.
	better, betterAtLeast = 0.05, 0.0002
	// fadeOther is what is left of the past when the load is another one, fadeDrifted when it has
	// drifted.
	fadeOther, fadeDrifted = 1.0 / 16, 1.0 / 4
	// learnSpan is how long shadows must have run, in their own time, and scarce the share of the GPUs that
	// full batches take, for the deferral not to be put into force.
	learnSpan = 5 * mono.Second
	scarce    = 0.6
	// learnOver is enough, and learnBudgets times the longest budget, where the deferral itself loses more than
	// learnBad: nothing is safe then, and settings differ as soon as queues are as long as they can become.
	learnOver    = mono.Second
	learnBudgets = 2
	learnBad     = 0.05
	// memoryBase and memoryPerModel are how many requests a tally goes by when the load changes.
	memoryBase, memoryPerModel = 100_000, 2_000
	// memoryLong times as many it holds, while nothing does, before it counts them half: of 1,000 requests of a
	// tight model that loses one in a hundred, two settings that differ by a third differ by chance.
	memoryLong = 16
)

// outlook is what a shadow has seen.
func (s *shadow) outlook() Outlook {
	o := Outlook{Setting: s.setting, Wait: s.tally.wait(), Used: s.used}
	o.Bad, o.Worst = s.tally.badRates()
	o.Cost = o.Bad + worstCost(o.Worst) + float64(waitWeight*o.Wait) + max(0, o.Used-1) + s.debt
	if s.setting.Head {
		o.Cost += headDoubt
	}
	if s.setting.Cap > 0 {
		o.Cost += capDoubt
	}
	return o
}

// worstCost is what a bad rate of the worst model costs.
func worstCost(rate float64) float64 {
	return min(rate, worstMost) + float64(max(0, rate-worstMost)/worstPart)
}

// Choose looks at the load, and at what a finished pass has shown. True when the choice is
// another one.
func (t *Tuner) Choose(now mono.Time) (changed bool) {
	t.heed(t.load.look(now))
	t.hear(now)
	expected := max(t.choice.Chosen.Bad, t.shadowOf(t.choice.Setting).peak)
	if t.alarm.rings(now, expected) && t.choice.Setting != (batching.Setting{}) && !t.choice.Setting.Cheap {
		t.other()
		t.alarm.ring(now)
		t.take(now, t.shadowOf(batching.Setting{}).outlook())
		return true
	}
	if t.shadow < len(t.shadows) {
		return false
	}
	t.pass, t.shadow = t.pass[:0], 0
	t.alarm.passed(now)
	changed = t.choose(now)
	if t.mirror.tally.requests() > memoryLong*t.memory() {
		t.fade(0.5)
	}
	return changed
}

// memory is how many requests are lately: what a change of the load leaves a part of.
func (t *Tuner) memory() float64 {
	return float64(memoryBase + memoryPerModel*len(t.mirror.tally.models))
}

// fade lets the past of all shadows count for less.
func (t *Tuner) fade(by float64) {
	for _, s := range t.shadows {
		s.tally.fade(by)
	}
}

// recall leaves so large a part of what was seen lately, and of what was seen before nothing more.
func (t *Tuner) recall(part float64) {
	t.fade(t.recalled(part))
}

// recalled is what recall multiplies all counts by.
func (t *Tuner) recalled(part float64) float64 {
	return part * min(1, t.memory()/max(1, t.mirror.tally.requests()))
}

// forget is recall for another load: nothing that was before tells much of it.
func (t *Tuner) forget() {
	t.recall(t.otherPart())
	for _, s := range t.shadows {
		s.debt = 0
	}
}

// otherPart is the part of what was seen lately that counts when the load is another one. Less after an overload in which cheap requests
// went first: how much was lost differs by setting, and would speak for that one for long.
func (t *Tuner) otherPart() float64 {
	if t.choice.Setting.Cheap {
		return fadeOther * fadeOther
	}
	return fadeOther
}

// shadowOf is the shadow with a setting; the first one where it is not tried.
func (t *Tuner) shadowOf(set batching.Setting) *shadow {
	for _, s := range t.tried() {
		if s.setting == set {
			return s
		}
	}
	return t.shadows[0]
}

func (t *Tuner) choose(now mono.Time) bool {
	force := t.shadowOf(t.choice.Setting)
	drift := t.drift(now, force)
	if force.stale() {
		t.recall(1)
	}
	t.choice.Deferral, t.choice.Chosen = t.shadowOf(batching.Setting{}).outlook(), force.outlook()
	t.choice.Chosen.Cost += drift
	best := t.choice.Chosen
	for _, s := range t.tried() {
		if o := s.outlook(); s != force && !s.learning() && o.Cost < best.Cost {
			best = o
		}
	}
	if t.learns(now) {
		if t.choice.Setting == (batching.Setting{}) {
			return false
		}
		t.take(now, t.choice.Deferral)
		return true
	}
	if t.alarm.holds(now) || best.Cost >= float64(t.choice.Chosen.Cost*(1-better))-betterAtLeast {
		return false
	}
	if drift > 0 {
		force.debt = drift
	}
	t.take(now, best)
	return true
}

// stale tells whether a shadow has lately lost more than the tally says, by more than chance makes of it: the rate of
// all arrivals is the same, but they are others. Bursts make more of chance than this reckons with. Then the tallies are
// as short as if nothing were known of the load, which is no harm.
func (s *shadow) stale() bool {
	bad, _ := s.tally.badRates()
	expected := float64(bad * (s.lately.served + s.lately.bad))
	more := s.lately.bad - expected
	return more > float64(driftPart*expected) && more > driftSigmas*math.Sqrt(expected+driftSigmas)
}

// learns tells whether the shadows have not run for long and full batches alone take a good part of the
// GPUs: what a setting loses then takes seconds to show, and meanwhile nothing is safer than
// the whole deferral. Beyond the peak it shows sooner.
func (t *Tuner) learns(now mono.Time) bool {
	if t.choice.Setting.Cheap {
		return false // it was chosen by what shadows had lost already
	}
	span := learnSpan
	if t.choice.Deferral.Bad > learnBad {
		span = min(span, max(learnOver, learnBudgets*t.longest))
	}
	return t.mirror.now < t.started.Add(span) && t.work > float64(scarce*float64(t.gpus)*float64(now.Sub(t.begins)))
}

// take puts a setting into force.
func (t *Tuner) take(now mono.Time, o Outlook) {
	t.choice.Setting, t.choice.Chosen, t.choice.At = o.Setting, o, now
	t.choice.Changes++
	t.mirror.follow(o.Setting)
	t.since = t.mirror.now
	t.relook()
}

// Choice is what is in force.
func (t *Tuner) Choice() Choice { return t.choice }

// Outlooks are what all settings make of the arrivals, for reports.
func (t *Tuner) Outlooks() []Outlook {
	var out []Outlook
	for _, s := range t.tried() {
		out = append(out, s.outlook())
	}
	return out
}

// String says it in words.
func (c Choice) String() string {
	return fmt.Sprintf("spends %v of the deferral: expects %v; the whole deferral: %v", c.Setting, c.Chosen, c.Deferral)
}

func (o Outlook) String() string {
	return fmt.Sprintf("%.3f %% bad (worst model %.2f %%), a wait of %.0f %% of the budget", 100*o.Bad, 100*o.Worst, 100*o.Wait)
}
