package bench

import (
	"errors"
	"fmt"
	"io"

	"github.com/symphony-serving/symphony/bench/plot"
	"github.com/symphony-serving/symphony/bench/schedbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/transport/mono"
)

// schedulerReport is a Result and all that must stand beside it.
type schedulerReport struct {
	provenance
	*schedbench.Result
}

func (c schedulerCmd) report(r *schedbench.Result) *schedulerReport {
	return &schedulerReport{provenance: newProvenance(), Result: r}
}

func (r *schedulerReport) print(to io.Writer) {
	r.provenance.print(to, "requests and GPUs are objects of the process")
	r.Print(to)
}

// show prints the report, and makes the files that were asked for.
func (r *schedulerReport) show(to io.Writer, file, picture string) error {
	failed := ""
	if r.Interrupted {
		failed = schedbench.InterruptedText
	}
	err := showReport(to, file, r, r.print, failed)
	if p, ok := r.Picture(); ok && picture != "" {
		if e := plot.Write(picture, plot.Size{W: 6.5, H: 4}, p); e != nil {
			err = errors.Join(err, fmt.Errorf("--out: %w", e))
		}
	}
	return err
}

// tryFiles finds out whether the files can be made, before there are results to lose.
func (c schedulerCmd) tryFiles() error {
	if c.Out != "" {
		for _, form := range []string{".svg", ".png"} {
			if err := cli.CheckWritable("out", c.Out+form); err != nil {
				return err
			}
		}
	}
	return cli.CheckWritable("json", c.JSON)
}

// schedulerProgress rewrites one line on a terminal; elsewhere it writes one per
// phase.
func schedulerProgress(to io.Writer, terminal bool) (tell schedbench.Progress, ended func()) {
	phase := ""
	if !terminal {
		return func(p string, _ float64, _ string) {
			if p != phase {
				phase = p
				fmt.Fprintf(to, "%s ...\n", phase)
			}
		}, func() {}
	}
	var last mono.Time
	return func(p string, done float64, text string) {
		if now := mono.Now(); p != phase || now.Sub(last) >= 200*mono.Millisecond {
			phase, last = p, now
			fmt.Fprintf(to, "\r\033[K%s: %.0f %%   %s", p, 100*done, text)
		}
	}, func() { fmt.Fprint(to, "\r\033[K") }
}
