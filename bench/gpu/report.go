package gpu

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/symphony-serving/symphony/bench/plot"
)

// named is a picture with its file's name and its caption.
type named struct {
	file    string
	caption string
	size    plot.Size
	picture plot.Picture
}

// write makes REPORT.md, data and plots. What cannot be drawn is said in the report: it is
// worth more than a picture.
func (r *Result) write(folder string) error {
	var errs []error
	drawn := map[string]string{}
	for _, o := range r.Parts {
		s := r.Sections[o.Part]
		if s == nil {
			continue
		}
		var text strings.Builder
		for _, p := range s.pictures() {
			if err := plot.Write(filepath.Join(folder, "plots", p.file), p.size, p.picture); err != nil {
				fmt.Fprintf(&text, "\nThe picture %q could not be drawn: %v\n", p.caption, err)
				continue
			}
			fmt.Fprintf(&text, "\n![%s](plots/%s.svg)\n", p.caption, p.file)
		}
		drawn[o.Part] = text.String()
		if t := s.table(); len(t) > 1 {
			errs = append(errs, writeCSV(filepath.Join(folder, "data", o.Part+".csv"), t))
		}
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "data", "result.json"), append(text, '\n'), 0o644)
	}
	errs = append(errs, err, os.WriteFile(filepath.Join(folder, "REPORT.md"), []byte(r.report(drawn)), 0o644))
	return errors.Join(errs...)
}

func writeCSV(path string, rows [][]string) error {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	if err := w.WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// report is Markdown.
func (r *Result) report(drawn map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What this GPU makes of Symphony\n\nMade by `%s` (%s) at %s, in %.0f s, on %s. [README.md](README.md) says what is measured and how; the figures are in `data/`.\n\n", r.Command, r.Version, r.Time, r.Seconds, r.Host)
	b.WriteString(r.verdict() + "\n\n")
	t := grid{{"part", "", "", "s (at most)", "clock MHz before, after", "W", "°C", "throttled by"}}
	for _, o := range r.Parts {
		what := ""
		if s := r.Sections[o.Part]; s != nil && o.Status == Done {
			what = s.summary()
		} else if o.Error != "" {
			what = firstLine(o.Error)
		}
		t = append(t, append([]string{o.Title, string(o.Status), what, fmt.Sprintf("%.0f (%.0f)", o.Seconds, o.Budget)}, o.clocks()...))
	}
	b.WriteString(t.String())
	for _, o := range r.Parts {
		fmt.Fprintf(&b, "\n## %s\n", o.Title)
		if o.Error != "" {
			fmt.Fprintf(&b, "\n**%s**: %s\n", o.Status, strings.ReplaceAll(o.Error, "\n", "\n\n"))
		}
		if s := r.Sections[o.Part]; s != nil {
			b.WriteString("\n" + s.text() + drawn[o.Part])
		}
	}
	return b.String()
}

// verdict is the first line.
func (r *Result) verdict() string {
	count := map[Status]int{}
	for _, o := range r.Parts {
		count[o.Status]++
	}
	if r.Passed {
		if n := count[Skipped]; n > 0 {
			return fmt.Sprintf("**PASSED**: %d parts; %d more are not for this machine.", count[Done], n)
		}
		return fmt.Sprintf("**PASSED**: all %d parts.", count[Done])
	}
	word := "FAILED"
	if count[Failed] == 0 && count[Interrupted] > 0 {
		word = "INTERRUPTED"
	}
	var parts []string
	for _, s := range []Status{Done, Skipped, Failed, NotRun, Interrupted} {
		if count[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[s], s))
		}
	}
	return fmt.Sprintf("**%s**: of %d parts, %s.", word, len(r.Parts), strings.Join(parts, ", "))
}

// clocks are the first GPU's state around a part: times measured while it throttles mean little.
func (o *Outcome) clocks() []string {
	if len(o.Before) == 0 || len(o.After) == 0 {
		return []string{"-", "-", "-", "-"}
	}
	b, a := &o.Before[0], &o.After[0]
	why := orNone(strings.Join(a.Throttle, ", "))
	return []string{number(b.ClockMHz) + ", " + number(a.ClockMHz), number(a.PowerW), number(a.Celsius), why}
}
