package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
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
	return provenance{Command: strings.Join(append([]string{"symphony"}, os.Args[1:]...), " "), Version: version,
		Time: time.Now().UTC().Format(time.RFC3339), Host: hostText()}
}

// print writes it; note goes on about the host.
func (p *provenance) print(to io.Writer, note string) {
	fmt.Fprintf(to, "$ %s\n%s, %s\n%s; %s\n\n", p.Command, p.Version, p.Time, p.Host, note)
}

// bounded is a value on the command line, and its bounds.
type bounded[T cmp.Ordered] struct {
	name           string
	v, least, most T
}

type intFlag = bounded[int]

func checkInts(flags ...intFlag) error { return checkBounds(flags...) }

func checkBounds[T cmp.Ordered](flags ...bounded[T]) error {
	for _, f := range flags {
		if !(f.v >= f.least && f.v <= f.most) { // NaN, too
			return fmt.Errorf("--%s: %v, must be between %v and %v", f.name, f.v, f.least, f.most)
		}
	}
	return nil
}

// optional is a flag that may be left out: what is not given is within its bounds.
func optional[T cmp.Ordered](name string, v *T, least, most T) bounded[T] {
	if v == nil {
		v = &least
	}
	return bounded[T]{name, *v, least, most}
}

// orZero is the value of a flag that may be left out.
func orZero[T any](v *T) (value T) {
	if v != nil {
		value = *v
	}
	return value
}

// errTold is of a report that says itself why the exit status is 1: main adds no word.
var errTold = errors.New("")

// showReport prints a report, or its JSON where --json is -, and makes the file of
// --json. failed is what the report says where the exit status is to be 1, or "": who
// gets JSON instead is told here.
func showReport(to io.Writer, path string, v any, print func(io.Writer), failed string) error {
	out := &checked{to: to}
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
	case out.err != nil || failed == "":
		return out.err
	case path == "-":
		return errors.New(failed)
	}
	return told(to, failed)
}

// told is the error of a run whose report, which went to to, says what failed. Where the
// report went to a file or a pipe, main says it, too.
func told(to io.Writer, failed string) error {
	if f, ok := to.(*os.File); ok && !isTerminal(f) {
		return errors.New(failed)
	}
	return errTold
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
