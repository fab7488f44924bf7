package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symphony-serving/symphony/cmd/symphony/cli"
	"github.com/symphony-serving/symphony/cmd/symphony/version"
)

// provenance is what must stand beside a measurement: what was asked, of which
// build, when and where.
type provenance struct {
	Command string
	Version string
	Time    string
	Host    string
}

func newProvenance() provenance {
	return provenance{Command: strings.Join(append([]string{"symphony"}, os.Args[1:]...), " "), Version: version.Number,
		Time: time.Now().UTC().Format(time.RFC3339), Host: hostText()}
}

// print writes it; note goes on about the host.
func (p *provenance) print(to io.Writer, note string) {
	fmt.Fprintf(to, "$ %s\n%s, %s\n%s; %s\n\n", p.Command, p.Version, p.Time, p.Host, note)
}

// showReport prints a report, or its JSON where --json is -, and makes the file of
// --json. failed is what the report says where the exit status is to be 1, or "": who
// gets JSON instead is told here.
func showReport(to io.Writer, path string, v any, print func(io.Writer), failed string) error {
	out := &cli.Checked{To: to}
	var err error
	switch path {
	case "":
		print(out)
	case "-":
		err = writeJSON(out, v)
	default:
		print(out)
		err = writeIndented(path, v)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--json: %w", err)
	case out.Err != nil || failed == "":
		return out.Err
	case path == "-":
		return errors.New(failed)
	}
	return cli.Told(to, failed)
}

// writeReport makes base.txt of what print writes, and base.json of v.
func writeReport(base string, print func(io.Writer), v any) error {
	var text bytes.Buffer
	print(&text)
	if err := os.WriteFile(base+".txt", text.Bytes(), 0o644); err != nil {
		return err
	}
	return writeIndented(base+".json", v)
}

func writeIndented(path string, v any) error {
	var text bytes.Buffer
	if err := writeJSON(&text, v); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func writeJSON(to io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(b, '\n'))
	return err
}
