package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/bench/httpbench"
	"github.com/symphony-serving/symphony/bench/report"
	"github.com/symphony-serving/symphony/bench/schedbench"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
)

// The rule of those with --json: what was measured, one line INTERRUPTED, exit status 1.
func TestInterruptedIsSaidOnce(t *testing.T) {
	load := &report.Report{Interrupted: true, Seconds: 2}
	load.Judge()
	point := &schedbench.Point{Loops: 1, GPUs: 64, Interrupted: true}
	sched := parsed[schedulerCmd](t).report(&schedbench.Result{Interrupted: true, Points: []*schedbench.Point{point}})
	web := &httpReport{Result: &httpbench.Result{Interrupted: true}}
	for name, show := range map[string]func(to io.Writer, file string) error{
		"load":      func(to io.Writer, file string) error { return showReport(to, file, load, load.Print, load.Verdict) },
		"scheduler": func(to io.Writer, file string) error { return sched.show(to, file, "") },
		"http":      web.show,
	} {
		var out bytes.Buffer
		if err := show(&out, ""); !errors.Is(err, cli.ErrTold) || strings.Count(out.String(), "INTERRUPTED") != 1 {
			t.Errorf("%s: error %v, printed\n%s", name, err, out.String())
		}
		out.Reset()
		if err := show(&out, "-"); err == nil || strings.Count(err.Error(), "INTERRUPTED") != 1 || !json.Valid(out.Bytes()) {
			t.Errorf("%s --json -: error %v, printed\n%s", name, err, out.String())
		}
	}
}

// A report that cannot be written is no success, and not what was told already.
func TestShowReportFails(t *testing.T) {
	print := func(to io.Writer) { io.WriteString(to, "a table") }
	if err := showReport(&full{}, "", 1, print, ""); err == nil || errors.Is(err, cli.ErrTold) {
		t.Errorf("a full disk: %v", err)
	}
	if err := showReport(io.Discard, "/nowhere/at/all.json", 1, print, "INTERRUPTED"); err == nil || !strings.HasPrefix(err.Error(), "--json: ") {
		t.Errorf("no folder: %v", err)
	}
	if err := showReport(io.Discard, "", 1, print, ""); err != nil {
		t.Error(err)
	}
}

// full is a disk with room for some bytes.
type full struct {
	bytes.Buffer
	room int
}

func (f *full) Write(p []byte) (int, error) {
	if f.Len()+len(p) > f.room {
		return 0, errors.New("no space left")
	}
	return f.Buffer.Write(p)
}

// Who redirects a report hears what failed from main; a terminal has it once.
func TestRedirectedReportsAreToldApart(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "report"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := showReport(f, "", 1, func(io.Writer) {}, "INTERRUPTED"); err == nil || err.Error() != "INTERRUPTED" {
		t.Errorf("to a file: %v", err)
	}
	if err := cli.Told(io.Discard, "INTERRUPTED"); !errors.Is(err, cli.ErrTold) {
		t.Errorf("else: %v", err)
	}
}
