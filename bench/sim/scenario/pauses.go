package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

const pausesHelp = "must be scheduler:LENGTH/EVERY or backend:LENGTH/EVERY, with /random behind it for exponential spans, as in scheduler:5ms/200ms or backend:10ms/1s/random"

// Bounds of pauses. Shorter ones are jitter, longer ones failures.
const (
	pauseLeast, pauseMost = mono.Millisecond / 10, mono.Second
	pauseEveryMost        = 3600 * mono.Second
	pauseShare            = 0.5 // of the time, of each part
)

// parsePauses reads pauses of the scheduler and of the GPUs:
//
//	scheduler:5ms/200ms      5 ms every 200 ms, the first one at an instant from the seed
//	backend:10ms/1s          each GPU, at instants of its own
//	backend:10ms/1s/random   1 s is the mean, and the spans between are exponential
func parsePauses(texts []string) ([]sim.Pause, error) {
	var pauses []sim.Pause
	var paused [sim.BackendPart + 1]float64
	for _, text := range texts {
		p, ok := parsePause(text)
		switch {
		case !ok:
			return nil, refuse("pauses", "%q, %s", text, pausesHelp)
		case p.Length < pauseLeast || p.Length > pauseMost:
			return nil, refuse("pauses", "%q: %v, must be %v to %v", text, p.Length.Std(), pauseLeast.Std(), pauseMost.Std())
		case p.Every > pauseEveryMost:
			return nil, refuse("pauses", "%q: every %v, must be at most %v", text, p.Every.Std(), pauseEveryMost.Std())
		}
		if paused[p.Part] += p.Length.Seconds() / p.Every.Seconds(); !(paused[p.Part] <= pauseShare) {
			return nil, refuse("pauses", "%q: the %s would stand still for more than half of the time", text, partText(p.Part))
		}
		pauses = append(pauses, p)
	}
	return pauses, nil
}

func parsePause(text string) (p sim.Pause, ok bool) {
	part, rest, _ := strings.Cut(text, ":")
	switch part {
	case partText(sim.SchedulerPart):
		p.Part = sim.SchedulerPart
	case partText(sim.BackendPart):
		p.Part = sim.BackendPart
	default:
		return p, false
	}
	words := strings.Split(rest, "/")
	if len(words) == 3 && words[2] == "random" {
		p.Random, words = true, words[:2]
	}
	if len(words) != 2 {
		return p, false
	}
	for i, to := range []*mono.Dur{&p.Length, &p.Every} {
		d, err := time.ParseDuration(words[i])
		if *to = mono.Dur(d); err != nil || d <= 0 {
			return p, false
		}
	}
	return p, true
}

func partText(p sim.Part) string {
	if p == sim.BackendPart {
		return "backend"
	}
	return "scheduler"
}

// What Scenario.Margin may be; an empty text in a filled Scenario is none.
const (
	measured = "measured"
	noMargin = "none"
)

// fillMargin: where something stands still the scheduler defends itself as the
// live one does, unless it is told not to. Texts have one form: none is "" where
// it is the default.
func (s *Scenario) fillMargin() {
	switch {
	case len(s.Pauses) > 0 && s.Margin == "":
		s.Margin = measured
	case len(s.Pauses) == 0 && s.Margin == noMargin:
		s.Margin = ""
	}
}

// checkMargin refuses a margin that nothing could be learnt for.
func (s *Scenario) checkMargin() error {
	if !slices.Contains([]string{"", noMargin, measured}, s.Margin) {
		return refuse("margin", "%q, must be %s or %s", s.Margin, noMargin, measured)
	}
	if s.Margin == measured && len(s.Pauses) == 0 && s.Jitter == 0 && s.Network == "none" {
		return refuse("margin", "%s has no effect where no batch ends late: add --pauses, --jitter or --network, or leave it out", measured)
	}
	return nil
}
