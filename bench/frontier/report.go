package frontier

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/symphony-serving/symphony/bench/report"
)

// write makes data, plots and the report.
func (r *Result) write(workloads []Workload, opts Options) error {
	to := report.Folder(opts.Out)
	for i := range workloads {
		if err := r.draw(&workloads[i], to); err != nil {
			return err
		}
	}
	return to.Write("frontier", r, r.all(), r.report(workloads, opts))
}

// all are the points.
func (r *Result) all() [][]string {
	rows := [][]string{{"workload", "rule", "load", "rate_rps", "offered_rps", "queue_p50_ms", "queue_p99_ms", "latency_p50_ms", "latency_p99_ms",
		"gpus_running", "gpus_99", "gpus_any", "busy", "need", "bad_rate", "batch_mean"}}
	g := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for i := range r.Points {
		p := &r.Points[i]
		rows = append(rows, []string{p.Workload, p.Rule, g(p.Load), g(p.Rate), g(p.Offered), g(p.QueueP50), g(p.QueueP99), g(p.LatencyP50), g(p.LatencyP99),
			g(p.Running), strconv.Itoa(p.GPUs), strconv.Itoa(p.Any), g(p.Busy), g(p.Need), g(p.BadRate), g(p.Batch)})
	}
	return rows
}

// report is Markdown.
func (r *Result) report(workloads []Workload, opts Options) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Latency against GPUs in use\n\nMade by `%s` (version %s, simulator core %d). Every number is from the simulator.\n", r.Command, r.Version, r.Core)
	b.WriteString("[README.md](README.md) says what is measured; all figures, with those that are not in these tables, are in `data/frontier.csv`.\n")
	if opts.Quick {
		b.WriteString("\nThis is the short version: thin sweeps, short simulations.\n")
	}
	for i := range workloads {
		w := &workloads[i]
		fmt.Fprintf(&b, "\n## %s\n\n`--models %s --gpus %d", w.Title, w.Models, w.GPUs)
		if w.Popularity != "" {
			fmt.Fprintf(&b, " --popularity %s", w.Popularity)
		}
		if w.Arrivals != "" {
			fmt.Fprintf(&b, " --arrivals %s", w.Arrivals)
		}
		fmt.Fprintf(&b, "`, %g s after %g s, seed %d. Goodput: %s requests/s.\n", w.Seconds, w.Warmup, seed, r.peaksText(w.Name))
		if w.scales() {
			fmt.Fprintf(&b, "\n![Queueing time against GPUs in use](plots/%s-frontier.svg)\n", w.Name)
		}
		fmt.Fprintf(&b, "\n![By load](plots/%s-load.svg)\n", w.Name)
		r.tables(&b, w, "By share of the highest goodput", false)
		if len(w.Rates) > 0 {
			r.tables(&b, w, "By rate", true)
		}
	}
	return b.Bytes()
}

func (r *Result) peaksText(workload string) string {
	var parts []string
	for _, p := range r.Peaks {
		if p.Workload == workload {
			parts = append(parts, fmt.Sprintf("%s %s", p.Rule, rate(p.Goodput)))
		}
	}
	return strings.Join(parts, ", ")
}

// tables are rules by loads: queue, GPUs and bad requests.
func (r *Result) tables(b *bytes.Buffer, w *Workload, title string, fixed bool) {
	for _, t := range []struct {
		what string
		cell func(p *Point) string
	}{
		{"queue p50 / p99, ms", func(p *Point) string { return fmt.Sprintf("%.1f / %.1f", p.QueueP50, p.QueueP99) }},
		{"latency p50 / p99, ms", func(p *Point) string { return fmt.Sprintf("%.1f / %.1f", p.LatencyP50, p.LatencyP99) }},
		{"GPUs: that run on average / that carry 99 % / that ran anything", func(p *Point) string { return fmt.Sprintf("%.1f / %d / %d", p.Running, p.GPUs, p.Any) }},
		{"bad requests, %", func(p *Point) string { return strconv.FormatFloat(100*p.BadRate, 'f', 3, 64) }},
	} {
		fmt.Fprintf(b, "\n%s: %s\n\n", title, t.what)
		r.table(b, w, fixed, t.cell)
	}
}

func (r *Result) table(b *bytes.Buffer, w *Workload, fixed bool, cell func(p *Point) string) {
	first := r.rows(w.Name, Rules()[0].Name, fixed)
	b.WriteString("| |")
	for _, p := range first {
		if fixed {
			fmt.Fprintf(b, " %s r/s |", rate(p.Rate))
		} else {
			fmt.Fprintf(b, " %.0f %% |", 100*p.Load)
		}
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(first)) + "\n")
	b.WriteString("| *need, GPUs* |")
	for _, p := range first {
		fmt.Fprintf(b, " *%.1f* |", p.Need)
	}
	b.WriteString("\n")
	for _, rule := range Rules() {
		fmt.Fprintf(b, "| %s |", rule.Name)
		for _, p := range r.rows(w.Name, rule.Name, fixed) {
			fmt.Fprintf(b, " %s |", cell(p))
		}
		b.WriteString("\n")
	}
}

// rows are a rule's points by load.
func (r *Result) rows(workload, rule string, fixed bool) (out []*Point) {
	for i := range r.Points {
		if p := &r.Points[i]; p.Workload == workload && p.Rule == rule && p.Fixed == fixed {
			out = append(out, p)
		}
	}
	return out
}

// rate writes requests/s for people: 5,264.
func rate(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
