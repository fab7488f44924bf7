package paper

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/results"
)

// Options of a Session.
type Options struct {
	Out      string // folder of what is made
	Quick    bool
	Fresh    bool // simulate again what has a result
	Parallel int  // jobs at a time; 0 means 1
	Progress io.Writer
	Terminal bool      // Progress is one: the line is written over
	Command  string    // as typed, for the report
	Book     Book      // of the figures; the zero Book is the Symphony paper
	Lines    io.Writer // nil: claims are in the report alone, else each has a line here too
}

// Session runs figures into one folder. Figures run one after the other, the
// jobs of one at the same time.
type Session struct {
	Quick bool

	ctx      context.Context
	opts     Options
	store    *results.Store
	progress *progress
	section  *section // of the figure that runs
}

// resultsOf is the command that writes the results.
const resultsOf = "symphony bench paper"

// Run makes the figures and the report. A figure that fails does not keep the
// others from running; when ctx ends, what is done is kept.
func Run(ctx context.Context, figures []Figure, opts Options) error {
	if opts.Book.Figures == nil {
		opts.Book = symphony()
	}
	for _, dir := range []string{"data", "plots"} {
		if err := os.MkdirAll(filepath.Join(opts.Out, dir), 0o755); err != nil {
			return outError(err)
		}
	}
	kept, err := results.Open(filepath.Join(opts.Out, "results.jsonl"), resultsOf, opts.Fresh, opts.Progress)
	if err != nil {
		return outError(err)
	}
	defer kept.Close()
	s := &Session{Quick: opts.Quick, ctx: ctx, opts: opts, store: kept}
	s.progress = newProgress(opts.Progress, opts.Terminal)
	var failed []error
	for _, f := range figures {
		if ctx.Err() != nil {
			break
		}
		if err := s.run(f); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.ID, err))
		}
	}
	s.progress.end()
	if err := writeReport(opts.Out, opts.Book); err != nil {
		failed = append(failed, err)
	} else if opts.Progress != nil {
		fmt.Fprintf(opts.Progress, "the report is in %s\n", filepath.Join(opts.Out, "REPORT.md"))
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; what is done is in %s, run again to go on", kept.Path())
	}
	return errors.Join(failed...)
}

// outError is of a folder that nothing can be written to, in the flag's words.
func outError(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("--out: %w; give a folder that can be written", err)
	}
	return err
}

func (s *Session) run(f Figure) error {
	s.section = &section{ID: f.ID, Title: f.Title, Command: s.opts.command(f.ID), Quick: s.Quick}
	s.progress.begin(f.ID)
	if err := f.Run(s); err != nil {
		return err
	}
	for i := range s.section.Claims {
		if c := &s.section.Claims[i]; s.opts.Lines != nil {
			fmt.Fprintf(s.opts.Lines, "%s %-4s %s: %s (wanted: %s)\n", f.ID, c.verdict(), c.What, c.Ours, c.Paper)
		}
	}
	return s.section.save(s.opts.Out)
}

func (o Options) command(id string) string {
	if o.Command != "" {
		return o.Command + " " + id
	}
	return id
}

// Table writes data/NAME.csv and puts the table into the report.
func (s *Session) Table(name string, header []string, rows [][]string) error {
	path := filepath.Join(s.opts.Out, "data", name+".csv")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := csv.NewWriter(f)
	err = errors.Join(w.Write(header), w.WriteAll(rows), f.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s.section.Tables = append(s.section.Tables, table{Name: name, Header: header, Rows: shortened(rows)})
	return nil
}

// Plot writes plots/NAME.svg and NAME.png in the usual size and puts the
// picture into the report.
func (s *Session) Plot(name string, p plot.Picture) error {
	return s.PlotSized(name, plot.Size{}, p)
}

// PlotSized is Plot in another size.
func (s *Session) PlotSized(name string, size plot.Size, p plot.Picture) error {
	if err := plot.Write(filepath.Join(s.opts.Out, "plots", name), size, p); err != nil {
		return err
	}
	s.section.Plots = append(s.section.Plots, name)
	return nil
}

// Claim is one statement of the paper and what became of it.
type Claim struct {
	What        string  // "goodput of ResNet50"
	Paper, Ours string  // with units
	Ratio       float64 // ours / paper's; 0: none makes sense
	Holds       bool    // by the paper's own number
	Short       Verdict // where it does not hold: Weaker, Draw or "", which is no
	Why         string  // where it does not hold, or holds for another reason
}

// Claim puts a line into the report. A ratio that is no number is left out:
// JSON has no word for it, and the figure would be lost.
func (s *Session) Claim(c Claim) {
	if math.IsNaN(c.Ratio) || math.IsInf(c.Ratio, 0) {
		c.Ratio = 0
	}
	s.section.Claims = append(s.section.Claims, c)
}

// Note puts a paragraph into the report: a choice that the paper leaves open,
// what a column means.
func (s *Session) Note(format string, args ...any) {
	s.section.Notes = append(s.section.Notes, fmt.Sprintf(format, args...))
}

// Setting puts a line of settings into the report, once.
func (s *Session) Setting(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !slices.Contains(s.section.Settings, line) {
		s.section.Settings = append(s.section.Settings, line)
	}
}

// Pick is quick or full, as the session is.
func Pick[T any](s *Session, quick, full T) T {
	if s.Quick {
		return quick
	}
	return full
}
