package peers

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown is the tables, with what made them.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, `%s`, %s; %g s a point; the machine's load before: %.1f; %.0f minutes.\n", r.Date, r.Command, r.Host, r.Seconds, r.Load, r.Took/60)
	if r.Interrupted {
		b.WriteString("\n**Interrupted**: this is what had been measured by then.\n")
	}
	b.WriteString("\n| system | version | not measured |\n|---|---|---|\n")
	for _, s := range r.Systems {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Name, s.Version, missing(s))
	}
	for _, c := range r.Cases {
		for _, a := range r.Arrivals {
			b.WriteString(r.table(c, a))
		}
		b.WriteString(r.choicesTable(c))
	}
	return b.String()
}

func missing(m Measured) string {
	var out []string
	for in, why := range m.Missing {
		why = strings.ReplaceAll(strings.ReplaceAll(why, "\n", "; "), "|", "/")
		if in != "" {
			why = in + ": " + why
		}
		out = append(out, why)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// table is one case under one arrival process: a row a rate, a column a system.
func (r *Result) table(c Case, arrivals string) string {
	labels, rates := r.axes(c, arrivals)
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n**%s; %s arrivals.** In time r/s (bad share), p50 / p99 ms:\n\n| offered | %s |\n|---|%s\n", c.Title, arrivals, strings.Join(labels, " | "), strings.Repeat("---|", len(labels)))
	marked := false
	for _, rate := range rates {
		fmt.Fprintf(&b, "| %s |", number(rate))
		for _, l := range labels {
			p := r.point(c, arrivals, l, rate)
			b.WriteString(" " + cell(p) + " |")
			marked = marked || p != nil && p.Note != ""
		}
		b.WriteString("\n")
	}
	if marked {
		b.WriteString("\n\\* the generator was late or an answer is missing: see the note in results.json.\n")
	}
	return b.String()
}

// cell is "-" for what was not driven: less in time than a fiftieth at a lower rate.
func cell(p *Point) string {
	if p == nil {
		return "-"
	}
	text := fmt.Sprintf("%.0f (%s)", p.InTime, percent(p.BadRate))
	if p.P50 > 0 {
		text += fmt.Sprintf(", %.1f / %.1f", p.P50, p.P99)
	}
	if p.Note != "" {
		text += "\\*"
	}
	return text
}

func percent(share float64) string {
	if share >= 0.1 {
		return fmt.Sprintf("%.0f %%", 100*share)
	}
	return fmt.Sprintf("%.2g %%", 100*share)
}

// choicesTable says which settings the columns are.
func (r *Result) choicesTable(c Case) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, p := range r.Points {
		if l := p.label(); p.Case == c.Name && !seen[l] {
			seen[l] = true
			fmt.Fprintf(&b, "- %s: %v\n", l, p.Setting)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "\nThe settings:\n\n" + b.String()
}

// SweepMarkdown is every setting that was tried.
func (r *Result) SweepMarkdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The sweep\n\n%s, `%s`. In time r/s at each rate, p50 at the lowest; the score is the mean over the rates of what a setting\nserves in time as a share of the most that any setting of its system does.\n", r.Date, r.Command)
	last := ""
	for _, t := range r.Sweep {
		if head := t.Case + ", " + t.System; head != last {
			last = head
			fmt.Fprintf(&b, "\n## %s\n\n| setting | %s | p50 ms | score |\n|---|%s---|---|\n", head, strings.ReplaceAll(list(t.Rates), ", ", " | "), strings.Repeat("---|", len(t.Rates)))
		}
		fmt.Fprintf(&b, "| %v |", t.Setting)
		for _, v := range t.InTime {
			fmt.Fprintf(&b, " %.0f |", v)
		}
		fmt.Fprintf(&b, " %.1f | %.3f |\n", t.P50[0], t.Score)
	}
	return b.String()
}

// axes are a table's labels in the order of measuring, and its rates.
func (r *Result) axes(c Case, arrivals string) (labels []string, rates []float64) {
	for _, p := range r.Points {
		if p.Case != c.Name || p.Arrivals != arrivals {
			continue
		}
		if l := p.label(); !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
		if !slices.Contains(rates, p.Rate) {
			rates = append(rates, p.Rate)
		}
	}
	slices.Sort(rates)
	return labels, rates
}

// point finds one, or nil.
func (r *Result) point(c Case, arrivals, label string, rate float64) *Point {
	for i := range r.Points {
		if p := &r.Points[i]; p.Case == c.Name && p.Arrivals == arrivals && p.Rate == rate && p.label() == label {
			return p
		}
	}
	return nil
}

// The table in a README stands between these lines.
const (
	tableBegin = "<!-- results: written by make peers KEEP=1 -->"
	tableEnd   = "<!-- end of results -->"
)

// Insert puts the tables between the marks of a README; false: it has none.
func Insert(readme, tables string) (string, bool) {
	before, rest, ok := strings.Cut(readme, tableBegin)
	if !ok {
		return readme, false
	}
	_, after, ok := strings.Cut(rest, tableEnd)
	if !ok {
		return readme, false
	}
	return before + tableBegin + "\n" + strings.TrimSpace(tables) + "\n" + tableEnd + after, true
}
