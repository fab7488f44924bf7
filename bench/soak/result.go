package soak

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Result is a whole soak.
type Result struct {
	Config      Config                  `json:"config"`
	Capacity    float64                 `json:"capacity_rps"`
	Offered     float64                 `json:"offered_rps"`
	Seconds     float64                 `json:"seconds"` // of load
	Plan        []Fault                 `json:"plan"`
	Windows     []Window                `json:"windows"`
	Inside      float64                 `json:"inside_s"` // seconds in windows
	Counts      Counts                  `json:"counts"`
	Calm        []report.Summary        `json:"calm"`   // outside of windows, by model; the last is all of them
	Faulty      map[Kind]report.Summary `json:"faulty"` // inside, by kind
	Usage       []*life                 `json:"usage"`
	Pauses      pauses                  `json:"pauses"`
	CPU         float64                 `json:"cpu_cores"` // of all processes of the soak
	Interrupted bool                    `json:"interrupted,omitempty"`
	Violations  []string                `json:"violations"` // of what must never be, on any machine
	Late        []string                `json:"late"`       // of the SLOs: a machine that is too busy has them, too
	Passed      bool                    `json:"passed"`
	Verdict     string                  `json:"verdict"`
}

// badMost is the claim: outside of windows less than 1 % of a model's requests are bad.
const badMost = 0.01

func (r *run) result(plan []Fault, p *pauses, loaded mono.Dur, interrupted bool) *Result {
	res := &Result{Config: r.cfg, Capacity: r.cfg.Capacity(), Offered: r.cfg.Rate(), Seconds: loaded.Seconds(),
		Plan: plan, Windows: r.windows.list(), Counts: r.ledger.look(mono.Now()), Faulty: map[Kind]report.Summary{}, Pauses: *p, Interrupted: interrupted}
	for _, w := range res.Windows {
		res.Inside += w.End - w.Start
	}
	all, models, _, _ := r.account.calm.Summarise(max(1, res.Seconds-res.Inside-r.cfg.Warmup.Seconds()))
	res.Calm = append(models, all)
	for k, rec := range r.account.faulty {
		if all, _, _, _ := rec.Summarise(1); all.Answered > 0 {
			all.Goodput = 0 // no span to count it over
			res.Faulty[k] = all
		}
	}
	grew := r.usage.judge()
	res.Usage = r.usage.lives
	r.mu.Lock()
	res.Violations = append([]string{}, r.violations...)
	r.mu.Unlock()
	res.Violations = slices.Concat(res.Violations, r.answers(res), r.silent(res), grew)
	res.Late = append([]string{}, r.slos(res)...)
	res.judge()
	return res
}

// answers is what is wrong with who got which answers.
func (r *run) answers(res *Result) (wrong []string) {
	c := res.Counts
	for _, k := range []struct {
		n    int64
		text string
	}{{c.Open, "requests lost: without any answer"}, {c.Twice, "answers too many"}, {c.Foreign, "outputs of another request"}, {c.Overdue, "requests open long after their deadline"}} {
		if k.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", k.n, k.text))
		}
	}
	var sent, lost, twice int64
	for _, s := range r.sources {
		sent, lost, twice = sent+s.counts.Sent.Load(), lost+s.counts.Lost(), twice+s.counts.Duplicates.Load()
	}
	if sent != c.Asked || lost != c.Open || twice != c.Twice {
		wrong = append(wrong, fmt.Sprintf("the load counted %d sent, %d lost, %d twice; the ledger %d, %d, %d", sent, lost, twice, c.Asked, c.Open, c.Twice))
	}
	return append(append(wrong, r.account.strangers()...), r.ledger.notes...)
}

// silent is the models of which nothing at all was answered outside of windows.
func (r *run) silent(res *Result) (wrong []string) {
	for i, m := range r.cfg.Models {
		if res.Calm[i].Answered == 0 && !res.Interrupted {
			wrong = append(wrong, m.Name+": nothing was answered outside of the faults' windows")
		}
	}
	return wrong
}

// slos is which models were not predictable outside of windows.
func (r *run) slos(res *Result) (wrong []string) {
	for i, m := range r.cfg.Models {
		s := res.Calm[i]
		switch slo := m.SLO.Millis(); {
		case s.P99 > slo:
			wrong = append(wrong, fmt.Sprintf("%s: p99 %.1f ms outside of the faults' windows, the SLO is %.0f ms", m.Name, s.P99, slo))
		}
		if s.BadRate >= badMost {
			wrong = append(wrong, fmt.Sprintf("%s: %.2f %% bad outside of the faults' windows: %s", m.Name, 100*s.BadRate, report.Counts(s.Bad)))
		}
	}
	for _, k := range []Kind{Garbage, SlowLoris, Flood} {
		if s := res.Faulty[k]; s.Answered >= strangersLeast && s.BadRate >= strangersMost {
			wrong = append(wrong, fmt.Sprintf("%.2f %% bad during %s, which concerns nobody else: %s", 100*s.BadRate, k, report.Counts(s.Bad)))
		}
	}
	return wrong
}

// Who sends garbage, or nothing, to a port must not disturb the others: of so many
// requests meanwhile, less than this share is bad.
const (
	strangersLeast = 500
	strangersMost  = 0.05
)

// reasons are all that is against a pass.
func (res *Result) reasons() []string { return slices.Concat(res.Violations, res.Late) }

func (res *Result) judge() {
	reasons := res.reasons()
	switch {
	case len(reasons) > 0:
		res.Verdict = fmt.Sprintf("FAILED: %d reasons, the first: %s", len(reasons), firstLine(reasons[0]))
	case res.Interrupted && res.Seconds < res.Config.Warmup.Seconds():
		res.Verdict = "INTERRUPTED in the warm-up: nothing was judged"
	case res.Interrupted:
		res.Verdict = fmt.Sprintf("INTERRUPTED after %.0f s: nothing was wrong until then", res.Seconds)
	default:
		res.Passed = true
		res.Verdict = fmt.Sprintf("PASSED: %d requests, each with one answer, its own; %d faults; nothing held at the end, %s; every model within its SLO between the faults",
			res.Counts.Asked, len(res.Windows), res.judged())
	}
}

// judged is in how many of the processes' lives growth was looked for: those that
// lasted long enough to tell.
func (res *Result) judged() string {
	n := 0
	for _, l := range res.Usage {
		if l.Samples >= samplesLeast {
			n++
		}
	}
	if n == 0 {
		return "too short to tell growth"
	}
	return fmt.Sprintf("no growth in the %d of %d lives of processes that lasted long enough to tell", n, len(res.Usage))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Print writes the result for people.
func (res *Result) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "between faults\tSLO ms\tanswered\tbad rate\tp50 ms\tp99 ms\tp99.9 ms\tmax ms\t")
	for i, s := range res.Calm {
		name, slo := "ALL", ""
		if i < len(res.Config.Models) {
			name, slo = s.Model, fmt.Sprintf("%.0f", res.Config.Models[i].SLO.Millis())
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.3f %%\t%.1f\t%.1f\t%.1f\t%.1f\t\n", name, slo, s.Answered, 100*s.BadRate, s.P50, s.P99, s.P999, s.Max)
	}
	fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\nduring\tfaults\tanswered\tbad rate\tp50 ms\tp99 ms\tlongest s\t\t")
	for _, k := range Kinds() {
		n, longest := 0, 0.0
		for _, win := range res.Windows {
			if win.Kind == k {
				n, longest = n+1, max(longest, win.Healed-win.Start)
			}
		}
		if s, ok := res.Faulty[k]; ok || n > 0 {
			fmt.Fprintf(t, "%s\t%d\t%d\t%.2f %%\t%.1f\t%.1f\t%.1f\t\t\n", k, n, s.Answered, 100*s.BadRate, s.P50, s.P99, longest)
		}
	}
	t.Flush()
	for _, k := range Kinds() {
		if s, ok := res.Faulty[k]; ok && len(s.Bad) > 0 {
			fmt.Fprintf(w, "bad during %s: %s\n", k, report.Counts(s.Bad))
		}
	}
	c := res.Counts
	fmt.Fprintf(w, "\nseed %d; %.1f r/s offered, %.0f %% of the capacity, for %.0f s, of which %.0f s inside of %d windows\n",
		res.Config.Seed, res.Offered, 100*res.Config.Load, res.Seconds, res.Inside, len(res.Windows))
	fmt.Fprintf(w, "%d asked, %d answered, %d outputs compared; lost %d, answered twice %d, of another request %d, overdue %d; HTTP connections lost with the process or link %d\n",
		c.Asked, c.Answered, c.Outputs, c.Open, c.Twice, c.Foreign, c.Overdue, c.ConnLost)
	fmt.Fprintf(w, "CPU %.2f cores; pauses of this process over 50 ms: %d, the longest %.0f ms\n", res.CPU, res.Pauses.Count, res.Pauses.Longest)
	for _, l := range res.Usage {
		if l.Samples < samplesLeast {
			continue
		}
		fmt.Fprintf(w, "%s, life %d:", l.Part, l.Life)
		for _, g := range gauges() {
			unit, div := "", 1.0
			if g.name == "heap" || g.name == "memory" {
				unit, div = " MiB", mib
			}
			fmt.Fprintf(w, "  %s %.0f to %.0f%s", g.name, l.First[g.name]/div, l.Last[g.name]/div, unit)
		}
		fmt.Fprintln(w)
	}
	for _, v := range res.reasons() {
		fmt.Fprintln(w, "- "+strings.ReplaceAll(v, "\n", "\n    "))
	}
	fmt.Fprintln(w, res.Verdict)
}
