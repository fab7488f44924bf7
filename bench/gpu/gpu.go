package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Options of a run.
type Options struct {
	Out      string   // folder for REPORT.md, data and plots
	Only     []string // names of parts; none: all
	Limit    mono.Dur // of everything; 0: LimitDefault
	Progress io.Writer
	// What must stand beside a measurement.
	Command, Version, Host, Time string

	reserve mono.Dur // of tests; 0: reserveDefault
}

// LimitDefault is how long everything may take, and LimitQuick where a look will do.
const (
	LimitDefault = 9 * 60 * mono.Second
	LimitQuick   = 150 * mono.Second
)

// reserveDefault is kept of the limit for closing devices and for writing.
const reserveDefault = 12 * mono.Second

// Status is how a part ended.
type Status string

// How a part may end.
const (
	Done        Status = "done"
	Failed      Status = "failed"
	Skipped     Status = "skipped"     // it does not apply to this machine
	NotRun      Status = "not run"     // there was no time left, or a part before it holds the GPU
	Interrupted Status = "interrupted" // by Ctrl-C
)

// Outcome is what became of a part.
type Outcome struct {
	Part    string    `json:"part"`
	Title   string    `json:"title"`
	Status  Status    `json:"status"`
	Error   string    `json:"error,omitempty"` // or why it was skipped
	Seconds float64   `json:"seconds"`
	Budget  float64   `json:"budget_seconds"`
	Before  []Reading `json:"gpus_before,omitempty"`
	After   []Reading `json:"gpus_after,omitempty"`
}

// Result is everything that was measured.
type Result struct {
	Command  string             `json:"command"`
	Version  string             `json:"version"`
	Host     string             `json:"host"`
	Time     string             `json:"time"`
	Seconds  float64            `json:"seconds"`
	Parts    []Outcome          `json:"parts"`
	Sections map[string]section `json:"sections"` // by part; of a failed one what it had
	Passed   bool               `json:"passed"`
}

// section is a part's result.
type section interface {
	summary() string   // one line for the progress
	text() string      // Markdown, without a heading
	pictures() []named // in the order of the text's mention
	table() [][]string // of the CSV; nil: none
}

// Names are those of the parts, in their order.
func Names() []string {
	var out []string
	for _, p := range parts() {
		out = append(out, p.name)
	}
	return out
}

// Check says what is wrong with the options before anything is opened.
func (o *Options) Check() error {
	for _, name := range o.Only {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--only: %q is none of %s", name, strings.Join(Names(), ", "))
		}
	}
	if o.Limit == 0 {
		o.Limit = LimitDefault
	}
	if o.reserve == 0 {
		o.reserve = reserveDefault
	}
	if o.Limit < o.reserve*5/3 || o.Limit > 3600*mono.Second {
		return fmt.Errorf("--limit: %v, must be between 20s and 1h", o.Limit.Std())
	}
	return report.Folder(o.Out).Make()
}

// Run measures and writes the report. The error is of what could not be written; what
// failed stands in the Result.
func Run(ctx context.Context, m Machine, o Options) (*Result, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	b := &bench{o: o, m: m, begin: mono.Now(), r: &Result{Command: o.Command, Version: o.Version, Host: o.Host, Time: o.Time, Sections: map[string]section{}}}
	b.r.Passed = b.all(ctx)
	b.r.Seconds = mono.Now().Sub(b.begin).Seconds()
	return b.r, b.r.write(o.Out)
}

// Failures are the parts that did not do what was asked, one line each.
func (r *Result) Failures() (out []string) {
	for _, p := range r.Parts {
		if p.Status != Done && p.Status != Skipped {
			out = append(out, fmt.Sprintf("%s: %s: %s", p.Part, p.Status, firstLine(p.Error)))
		}
	}
	return out
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// errSkip is of a part that does not apply here.
var errSkip = errors.New("not for this machine")

// skip says why.
func skip(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errSkip, fmt.Sprintf(format, args...))
}
