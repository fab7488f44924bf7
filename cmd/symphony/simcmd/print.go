package simcmd

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// summary is of several seeds. Half is half the width of the 95 % confidence
// interval. Of searches it is half the tolerance of the mean at least: all seeds
// search one grid of rates, so that equal results do not mean that they are
// exact.
type summary struct {
	Seeds int     `json:"seeds"`
	Mean  float64 `json:"mean_rps"`
	Half  float64 `json:"half_width_rps"`
}

func summaryOf(outcomes []*scenario.Outcome) summary {
	var rates []float64
	for _, o := range outcomes {
		rates = append(rates, headline(o))
	}
	mean, half := scenario.Mean(rates)
	for _, o := range outcomes {
		if o.Search != nil {
			half = max(half, o.Search.Tolerance/2*mean)
		}
	}
	return summary{len(rates), mean, half}
}

// headline is the rate that the outcome is about.
func headline(o *scenario.Outcome) float64 {
	if o.Search != nil {
		return o.Search.Rate
	}
	return o.All.Goodput
}

func asJSON(outcomes []*scenario.Outcome) ([]byte, error) {
	doc := struct {
		Records []*scenario.Outcome `json:"records"`
		Summary *summary            `json:"summary,omitempty"`
	}{Records: outcomes}
	if len(outcomes) > 1 && outcomes[0].Least == nil {
		s := summaryOf(outcomes)
		doc.Summary = &s
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	return append(text, '\n'), err
}

func asCSV(outcomes []*scenario.Outcome) ([]byte, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	if err := w.Write(scenario.Header()); err != nil {
		return nil, err
	}
	for _, o := range outcomes {
		if err := w.Write(o.Row()); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return text.Bytes(), w.Error()
}

// printOutcomes writes for people: one outcome by model, several by seed.
func printOutcomes(w io.Writer, outcomes []*scenario.Outcome) {
	o := outcomes[0]
	s := &o.Scenario
	fmt.Fprintf(w, "%s, %d GPUs, %d models, %s arrivals, %s, %v after a warm-up of %v\n\n",
		s.Policy, s.GPUs, len(s.Models), s.Arrivals, pausesText(s), s.Duration.Std(), s.Warmup.Std())
	if len(outcomes) == 1 {
		printModels(w, o)
		printGPUs(w, o)
		printTuning(w, o)
	} else {
		printSeeds(w, outcomes)
	}
	printHeadline(w, outcomes)
}

// pausesText is the network, and the pauses if there are any.
func pausesText(s *scenario.Scenario) string {
	text := "network " + s.Network
	if len(s.Pauses) > 0 {
		text += ", pauses " + strings.Join(s.Pauses, " ") + ", margin " + s.Margin
	}
	return text
}

// modelsFew is how many models the table lists; all of them are in the JSON.
const modelsFew = 12

func printModels(w io.Writer, o *scenario.Outcome) {
	if o.Search != nil && o.Search.Rate == 0 {
		return // no run passed
	}
	if o.Search != nil {
		fmt.Fprintf(w, "The last run of the search that passed:\n\n")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "model\toffered r/s\tgoodput r/s\tbad rate\tqueue p50 ms\tqueue p99 ms\tmean batch\t  bad by reason")
	rows := []scenario.Summary{o.All}
	if len(o.Models) <= modelsFew {
		rows = append(append([]scenario.Summary{}, o.Models...), o.All)
	}
	for _, s := range rows {
		if s.Model == "" {
			s.Model = "ALL"
		}
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%.3f %%\t%.1f\t%.1f\t%.2f\t  %s\n", s.Model, s.Offered, s.Goodput, 100*s.BadRate, s.QueueP50, s.QueueP99, s.Batch, badText(s.Bad))
	}
	t.Flush()
	if o.Hopeless > 0 {
		fmt.Fprintf(w, "\n%d of those that arrived reached the scheduler too late for any batch: no policy could have served them\n", o.Hopeless)
	}
}

func badText(bad map[string]int64) string {
	var parts []string
	for _, r := range scenario.Reasons() {
		if n := bad[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", r, n))
		}
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func printGPUs(w io.Writer, o *scenario.Outcome) {
	if len(o.GPUs) == 0 {
		return
	}
	fmt.Fprintf(w, "\nGPUs: %d used of %d, need %.1f, busy %.1f %%", o.GPUsUsed, len(o.GPUs), o.Need, 100*o.GPUBusy)
	if o.Lost > 0 {
		fmt.Fprintf(w, " (%.1f %% for batches that were lost)", 100*o.Lost)
	}
	if len(o.GPUs) <= 32 {
		var parts []string
		for _, b := range o.GPUs {
			parts = append(parts, fmt.Sprintf("%.0f", 100*b))
		}
		fmt.Fprintf(w, ": %s", strings.Join(parts, " "))
	}
	fmt.Fprintln(w)
}

// printTuning writes what the tuner chose, and what it expected of each setting at the end.
func printTuning(w io.Writer, o *scenario.Outcome) {
	if o.Tuning == nil || o.All.Arrived == 0 {
		return
	}
	fmt.Fprintf(w, "\nThe scheduler simulated itself, and changed its setting %d times. At the end it expected:\n\n", o.Tuning.Changes)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "deferral spent\tin force\tbad\tworst model\twait of the budget\tcost\t")
	for _, s := range o.Tuning.Settings {
		fmt.Fprintf(t, "%s\t%.1f %%\t%.3f %%\t%.3f %%\t%.1f %%\t%.5f\t\n", s.Setting, 100*s.Share, 100*s.Bad, 100*s.Worst, 100*s.Wait, s.Cost)
	}
	t.Flush()
}

func printSeeds(w io.Writer, outcomes []*scenario.Outcome) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rate := "goodput r/s"
	if outcomes[0].Search != nil {
		rate = "highest r/s" // what was asked for; offered is what came, in the last run that passed
	}
	fmt.Fprintln(t, "seed\toffered r/s\t"+rate+"\tbad rate\tqueue p50 ms\tqueue p99 ms\tmean batch\tbusy\tGPUs used\t")
	for _, o := range outcomes {
		a := &o.All
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%.3f %%\t%.1f\t%.1f\t%.2f\t%.1f %%\t%d\t\n", o.Scenario.Seed, a.Offered, headline(o), 100*a.BadRate, a.QueueP50, a.QueueP99, a.Batch, 100*o.GPUBusy, o.GPUsUsed)
	}
	t.Flush()
}

// printHeadline writes the goodput beside its bounds.
func printHeadline(w io.Writer, outcomes []*scenario.Outcome) {
	o, s := outcomes[0], summaryOf(outcomes)
	fmt.Fprintf(w, "goodput %.1f r/s", s.Mean)
	if s.Seeds > 1 {
		fmt.Fprintf(w, " +- %.1f (95 %% confidence, %d seeds)", s.Half, s.Seeds)
	}
	if o.Search != nil {
		fmt.Fprintf(w, ", the highest rate with every p99 within its SLO; searched to %.2g %%", 100*o.Search.Tolerance)
	}
	fmt.Fprintln(w)
	printDoubt(w, outcomes)
	for _, b := range []struct {
		name string
		rate float64
	}{{"staggered execution", o.Bounds.Staggered}, {"fluid, GPUs never idle", o.Bounds.Fluid}} {
		if b.rate > 0 {
			fmt.Fprintf(w, "  %.1f %% of the bound %.1f r/s (%s)\n", 100*s.Mean/b.rate, b.rate, b.name)
		}
	}
	if o.Bounds.Missing != "" {
		fmt.Fprintf(w, "  no bound to compare with: %s\n", o.Bounds.Missing)
	}
	runs, requests := simulatedInAll(outcomes)
	plural := "s"
	if runs == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d run%s, %d requests simulated after the warm-up\n", runs, plural, requests)
}

// simulatedInAll is the runs, and the requests that they counted. Their time
// would say too much: a search gives runs up.
func simulatedInAll(outcomes []*scenario.Outcome) (runs int, requests int64) {
	for _, o := range outcomes {
		if o.Search == nil {
			runs, requests = runs+1, requests+o.All.Arrived
			continue
		}
		runs, requests = runs+o.Search.Runs, requests+o.Search.Requests
	}
	return runs, requests
}

// printDoubt warns of searches that had too little to go by.
func printDoubt(w io.Writer, outcomes []*scenario.Outcome) {
	for _, o := range outcomes {
		switch g := o.Search; {
		case g != nil && g.Rate == 0:
			fmt.Fprintf(w, "  seed %d: not even %.2g r/s passes\n", o.Scenario.Seed, g.TooHigh)
		case g != nil && g.Judged < scenario.JudgedLeast:
			fmt.Fprintf(w, "  seed %d: a p99 was told by %d requests only, %d or more are wanted: set a longer --duration\n", o.Scenario.Seed, g.Judged, scenario.JudgedLeast)
		}
	}
}
