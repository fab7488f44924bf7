package scenario

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/transport/mono"
)

func TestParsePauses(t *testing.T) {
	got, err := parsePauses([]string{"scheduler:5ms/200ms", "scheduler:20ms/2s/random", "backend:10ms/1s"})
	const ms = mono.Millisecond
	want := []sim.Pause{{Part: sim.SchedulerPart, Length: 5 * ms, Every: 200 * ms}, {Part: sim.SchedulerPart, Length: 20 * ms, Every: 2000 * ms, Random: true},
		{Part: sim.BackendPart, Length: 10 * ms, Every: 1000 * ms}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestPausesAreRefused(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Scenario)
	}{
		{`--pauses: "5ms/200ms", must be scheduler:LENGTH/EVERY`, func(s *Scenario) { s.Pauses = []string{"5ms/200ms"} }},
		{`--pauses: "frontend:5ms/200ms"`, func(s *Scenario) { s.Pauses = []string{"frontend:5ms/200ms"} }},
		{`--pauses: "scheduler:5ms"`, func(s *Scenario) { s.Pauses = []string{"scheduler:5ms"} }},
		{`--pauses: "scheduler:5/200"`, func(s *Scenario) { s.Pauses = []string{"scheduler:5/200"} }},
		{`--pauses: "scheduler:0s/1s"`, func(s *Scenario) { s.Pauses = []string{"scheduler:0s/1s"} }},
		{`--pauses: "scheduler:5ms/200ms/often"`, func(s *Scenario) { s.Pauses = []string{"scheduler:5ms/200ms/often"} }},
		{`--pauses: "scheduler:1us/1s": 1µs, must be 100µs to 1s`, func(s *Scenario) { s.Pauses = []string{"scheduler:1us/1s"} }},
		{`2s, must be 100µs to 1s`, func(s *Scenario) { s.Pauses = []string{"backend:2s/20s"} }},
		{`every 2h0m0s, must be at most 1h0m0s`, func(s *Scenario) { s.Pauses = []string{"backend:1ms/2h"} }},
		{`the backend would stand still for more than half of the time`, func(s *Scenario) { s.Pauses = []string{"backend:3ms/10ms", "scheduler:3ms/10ms", "backend:3ms/10ms"} }},
		{`--margin: "1ms", must be none or measured`, func(s *Scenario) { s.Margin = "1ms" }},
		{`--margin: measured has no effect`, func(s *Scenario) { s.Margin = "measured" }},
	} {
		s := small()
		c.change(&s)
		_, err := s.Plan()
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

// TestMarginDefault: measured where something stands still, none elsewhere, and
// one text for either.
func TestMarginDefault(t *testing.T) {
	for _, c := range []struct {
		pauses       []string
		jitter       float64
		margin, want string
	}{
		{nil, 0, "", ""}, {nil, 0, "none", ""}, {nil, 0.1, "measured", "measured"},
		{[]string{"backend:5ms/1s"}, 0, "", "measured"}, {[]string{"backend:5ms/1s"}, 0, "none", "none"},
	} {
		s := small()
		s.Pauses, s.Jitter, s.Margin = c.pauses, c.jitter, c.margin
		p, err := s.Plan()
		if err != nil || p.Scenario.Margin != c.want {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if again, err := p.Scenario.Plan(); err != nil || again.Scenario.Margin != c.want {
			t.Errorf("%+v, planned again: %v", c, err)
		}
	}
}

// TestPausesShow: the scheduler that stands still loses more than without, and
// the record says what it was.
func TestPausesShow(t *testing.T) {
	s := small()
	calm := simulate(t, s)
	s.Pauses = []string{"scheduler:30ms/300ms", "backend:5ms/100ms/random"}
	o := simulate(t, s)
	if o.All.BadRate < calm.All.BadRate+0.01 || o.Hopeless == 0 || calm.Hopeless != 0 || o.Scenario.Margin != measured {
		t.Errorf("bad rate %g, %g without pauses; %d hopeless", o.All.BadRate, calm.All.BadRate, o.Hopeless)
	}
	if row := strings.Join(o.Row(), ","); !strings.Contains(row, "scheduler:30ms/300ms backend:5ms/100ms/random,measured") {
		t.Errorf("the row does not tell of the pauses: %s", row)
	}
}
