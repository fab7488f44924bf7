package simcmd

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/symphony-serving/symphony/bench/sim"
	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
	"github.com/symphony-serving/symphony/transport/mono"
)

// headrooms are the rows of --least-gpus for --policy symphony.
func headrooms() []string { return []string{"0", "0.1", "0.25", "0.5", "all"} }

const (
	symphony       = "symphony"
	symphonyPrefix = "symphony/headroom:"
)

// checkLeast refuses what --least-gpus cannot have, and its bounds without it.
func (c Command) checkLeast() error {
	if !c.LeastGPUs {
		if c.BadRate != nil || c.QueueP99 != nil || c.LatencyP99 != nil {
			return errors.New("--bad-rate, --queue-p99 and --latency-p99 are bounds on the search for a number of GPUs: give --least-gpus")
		}
		return nil
	}
	switch {
	case c.GPUs != nil:
		return fmt.Errorf("--gpus: %d has no effect with --least-gpus, which finds the number: leave one of them out", *c.GPUs)
	case c.Goodput:
		return errors.New("--least-gpus finds the GPUs for a rate, --goodput the rate for GPUs: leave one of them out")
	case len(c.Events) > 0:
		return errors.New("--gpu-event names GPUs, and --least-gpus does not know yet which there are: leave one of them out")
	case c.Timeline != "":
		return errors.New("--timeline draws one run: leave out --least-gpus, and give --gpus")
	case c.Seeds > 1:
		return errors.New("--least-gpus searches with one seed: leave out --seeds, and set a longer --duration")
	case c.Resume != "":
		return errors.New("--resume keeps no search for a number of GPUs: leave it out")
	case c.QueueP99 != nil && *c.QueueP99 == 0:
		return errors.New("--queue-p99: 0s, must be above 0; leave it out for no bound")
	case c.LatencyP99 != nil && *c.LatencyP99 == 0:
		return errors.New("--latency-p99: 0s, must be above 0; leave it out for no bound")
	}
	l := c.least()
	return l.Check()
}

// least is the bounds that were given.
func (c Command) least() scenario.Least {
	l := scenario.Least{BadRate: 0.01}
	if c.BadRate != nil {
		l.BadRate = *c.BadRate
	}
	span := func(d *time.Duration) mono.Dur {
		if d == nil {
			return 0
		}
		return mono.Dur(*d)
	}
	l.QueueP99, l.LatencyP99 = span(c.QueueP99), span(c.LatencyP99)
	return l
}

// leastRow is one row of the table.
type leastRow struct {
	name    string // of its first column
	plan    *scenario.Plan
	outcome *scenario.Outcome
	err     error
}

// leastRows are the policies that are searched for.
func (c Command) leastRows(s scenario.Scenario) (rows []leastRow, err error) {
	names, policies := []string{c.Policy}, []string{c.Policy}
	if c.Policy == symphony {
		names, policies = headrooms(), nil
		for _, h := range names {
			policies = append(policies, symphonyPrefix+h)
		}
	}
	for i, policy := range policies {
		s.Policy = policy
		plan, err := s.Plan()
		if err != nil {
			return nil, err
		}
		rows = append(rows, leastRow{name: names[i], plan: plan})
	}
	return rows, nil
}

// runLeast searches for all rows, and writes the table and the records.
func (c Command) runLeast(s scenario.Scenario, out, notes io.Writer, form progressForm, stop func() bool) (err error) {
	rows, err := c.leastRows(s)
	if err != nil {
		return err
	}
	files, err := openOutputs(c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	progress := newProgress(len(rows))
	end := progress.show(notes, form, everyPlain)
	c.searchLeast(rows, progress, stop)
	end()
	var outcomes []*scenario.Outcome
	for i := range rows {
		if errors.Is(rows[i].err, sim.ErrStopped) {
			return errors.New("stopped: nothing is written")
		}
		if rows[i].err != nil {
			return rows[i].err
		}
		outcomes = append(outcomes, rows[i].outcome)
	}
	return c.write(out, files, outcomes, func() { printLeast(out, rows, c.Policy == symphony) })
}

// leastTries is about how many simulations a search takes.
const leastTries = 8

// searchLeast searches the rows, some at a time.
func (c Command) searchLeast(rows []leastRow, progress *progress, stop func() bool) {
	var all sync.WaitGroup
	free := make(chan struct{}, c.parallel())
	for i := range rows {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			r, tries := &rows[i], 0
			tried := func() {
				progress.set(i, float64(tries)/leastTries)
				tries++
			}
			if r.outcome, r.err = r.plan.FindLeast(c.least(), tried, stop); r.err == nil {
				r.outcome.Version = version.Number
				progress.set(i, 1)
			}
		})
	}
	all.Wait()
}

// printLeast writes for people.
func printLeast(w io.Writer, rows []leastRow, byHeadroom bool) {
	o := rows[0].outcome
	s, l := &o.Scenario, o.Least
	fmt.Fprintf(w, "%d models, %.0f requests/s, %s arrivals, network %s, %v after a warm-up of %v\n", len(s.Models), o.All.Offered, s.Arrivals, s.Network, s.Duration.Std(), s.Warmup.Std())
	fmt.Fprintf(w, "The least number of GPUs with at most %.4g %% bad of every model's requests%s:\n\n", 100*l.BadRate, boundsText(l))
	first := "headroom"
	if !byHeadroom {
		first = "policy"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, first+"\tGPUs\tneed\tbusy\tqueue p50 ms\tqueue p99 ms\tlatency p99 ms\tbad rate\tmean batch\t")
	for i := range rows {
		o := rows[i].outcome
		a, gpus := &o.All, strconv.Itoa(o.Least.GPUs)
		if o.Least.GPUs == 0 {
			gpus = fmt.Sprintf("above %d", o.Least.Fails)
		}
		fmt.Fprintf(t, "%s\t%s\t%.1f\t%.1f %%\t%.1f\t%.1f\t%.1f\t%.3f %%\t%.2f\t\n", rows[i].name, gpus, o.Need, 100*o.GPUBusy, a.QueueP50, a.QueueP99, a.LatencyP99, 100*a.BadRate, a.Batch)
	}
	t.Flush()
	printLeastNotes(w, rows)
}

func printLeastNotes(w io.Writer, rows []leastRow) {
	runs, none, judged := 0, false, rows[0].outcome.Least.Judged
	for i := range rows {
		l := rows[i].outcome.Least
		runs, none, judged = runs+l.Runs, none || l.GPUs == 0, min(judged, l.Judged)
	}
	if none {
		fmt.Fprintln(w, "  above N: not even N GPUs keep the bounds, and more would only be idle; the row shows the run with N")
	}
	if judged < scenario.JudgedLeast {
		fmt.Fprintf(w, "  a bad rate was told by %d requests only, %d or more are wanted: set a longer --duration\n", judged, scenario.JudgedLeast)
	}
	fmt.Fprintf(w, "need: GPUs that deferral alone would keep busy. busy: of the GPUs in the row. %d runs\n", runs)
}

// boundsText is the bounds beside that on bad requests.
func boundsText(l *scenario.Least) (text string) {
	if l.QueueP99 > 0 {
		text += fmt.Sprintf(", a queue p99 of at most %v", l.QueueP99.Std())
	}
	if l.LatencyP99 > 0 {
		text += fmt.Sprintf(", a latency p99 of at most %v", l.LatencyP99.Std())
	}
	return text
}
