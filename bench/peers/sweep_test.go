package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
)

// broken is a system whose servers do not start.
type broken struct{ started *int }

func (broken) name() string                  { return "Broken" }
func (broken) version() string               { return "" }
func (broken) install(context.Context) error { return nil }
func (broken) stages(Case) []stage {
	return []stage{func(s Setting) []Setting { return s.grid([]float64{0, 0.1, 0.2}, []float64{0}) }}
}

func (b broken) start(Case, Setting, string) (*server, error) {
	*b.started++
	return nil, errors.New("no such port")
}

// What does not start is given up after the second setting, and both stand in the sweep.
func TestSweepGivesUp(t *testing.T) {
	started := 0
	r := &run{Config{Out: io.Discard}, &Result{}}
	chosen, err := r.sweep(t.Context(), broken{&started}, Cases()[0])
	if chosen != nil || err == nil || strings.Count(err.Error(), "no such port") != 2 || started != 2 {
		t.Errorf("chosen %v after %d starts: %v", chosen, started, err)
	}
	if all := r.result.Sweep; len(all) != 2 || all[0].Failed == "" || all[1].Setting.Delay != 0.1 {
		t.Errorf("the sweep has %+v", all)
	}
}

// One setting that fails, be it the first, does not cost the system its sweep.
func TestTrials(t *testing.T) {
	const fails, serves, late = "fails", "serves", "late"
	for name, c := range map[string]struct {
		does   []string // by delay
		tried  int
		chosen []choice
		err    string
	}{
		"the first fails":             {[]string{fails, serves, serves}, 3, []choice{{bestOverall, Setting{Delay: 1}}}, "<nil>"},
		"the first two fail":          {[]string{fails, fails, serves}, 2, nil, "delay 0 fails\ndelay 1 fails"},
		"the last two fail":           {[]string{serves, fails, fails}, 3, []choice{{bestOverall, Setting{}}}, "<nil>"},
		"one fails, nothing in time":  {[]string{fails, late, late}, 3, []choice{{bestOverall, Setting{Delay: 1}}}, "<nil>"},
		"late and failed, none serve": {[]string{late, fails, fails}, 3, []choice{{bestOverall, Setting{}}}, "<nil>"},
	} {
		r, tried := &run{Config{Out: io.Discard}, &Result{}}, 0
		all, err := r.trials(t.Context(), []stage{func(s Setting) []Setting { return s.grid([]float64{0, 1, 2}, []float64{0}) }}, func(s Setting) (Trial, error) {
			tried++
			one := Trial{Setting: s, InTime: []float64{0}, P50: []float64{0}}
			switch c.does[int(s.Delay)] {
			case fails:
				err := errors.New("delay " + number(s.Delay) + " fails")
				one.Failed = err.Error()
				return one, err
			case serves:
				one.InTime[0], one.P50[0] = 100, 5
			}
			return one, nil
		})
		got, err := chosen(all, err)
		if tried != c.tried || len(all) != c.tried || !reflect.DeepEqual(got, c.chosen) || fmt.Sprint(err) != c.err {
			t.Errorf("%s: %d of %d trials are kept, chosen %v, %v; want %d, %v, %s", name, len(all), tried, got, err, c.tried, c.chosen, c.err)
		}
	}
}
