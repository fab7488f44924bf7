package simcmd

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

func searched(rates ...float64) []*scenario.Outcome {
	var out []*scenario.Outcome
	for _, rate := range rates {
		out = append(out, &scenario.Outcome{Search: &scenario.Search{Tolerance: 0.02, Rate: rate, Runs: 7, Requests: 1000, Judged: scenario.JudgedLeast}})
	}
	return out
}

// TestIntervalHasTheTolerance: seeds that find one rate of the grid are not
// exact; where they differ by more, their spread is what counts.
func TestIntervalHasTheTolerance(t *testing.T) {
	if s := summaryOf(searched(500, 500, 500)); math.Abs(s.Half-5) > 1e-9 {
		t.Errorf("half width %g of three equal rates, want half the tolerance, 5", s.Half)
	}
	rates := []float64{400, 500, 600}
	_, want := scenario.Mean(rates)
	if s := summaryOf(searched(rates...)); s.Half != want || want < 100 {
		t.Errorf("half width %g, want that of the rates, %g", s.Half, want)
	}
	runs := []*scenario.Outcome{{All: scenario.Summary{Goodput: 500}}, {All: scenario.Summary{Goodput: 500}}}
	if s := summaryOf(runs); s.Half != 0 {
		t.Errorf("half width %g of runs that did not search", s.Half)
	}
	var table bytes.Buffer
	printHeadline(&table, searched(500, 500))
	text, err := asJSON(searched(500, 500))
	var doc struct{ Summary summary }
	if err := json.Unmarshal(text, &doc); err != nil || math.Abs(doc.Summary.Half-5) > 1e-9 {
		t.Errorf("summary %+v, %v", doc.Summary, err)
	}
	if err != nil || !strings.Contains(table.String(), "500.0 r/s +- 5.0") {
		t.Errorf("%v, headline %q", err, table.String())
	}
}

// TestWhatWasSimulated is told by the records: those of searches count their
// runs.
func TestWhatWasSimulated(t *testing.T) {
	for _, c := range []struct {
		outcomes []*scenario.Outcome
		want     string
	}{
		{searched(500, 510), "14 runs, 2000 requests simulated"},
		{[]*scenario.Outcome{{All: scenario.Summary{Arrived: 42}}}, "1 run, 42 requests simulated"},
	} {
		var table bytes.Buffer
		printHeadline(&table, c.outcomes)
		if !strings.Contains(table.String(), c.want) {
			t.Errorf("%q, want %q in it", table.String(), c.want)
		}
	}
}

// TestMissingBoundSaysWhy, and names no other reason.
func TestMissingBoundSaysWhy(t *testing.T) {
	for _, c := range []struct{ flag, want, not string }{
		{"--arrivals=gamma:0.3", "no bound to compare with: arrivals are bursty (gamma:0.3)\n", "GPUs come"},
		{"--gpu-event=leave:1@500ms", "no bound to compare with: GPUs come and go (--gpu-event)\n", "bursty"},
		{"--arrivals=poisson", "of the bound", "no bound"},
	} {
		table, _, err := simulated(t, "--rate=900", c.flag)
		if err != nil || !strings.Contains(table, c.want) || strings.Contains(table, c.not) {
			t.Errorf("%s: %v:\n%s", c.flag, err, table)
		}
	}
}
