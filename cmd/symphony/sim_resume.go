package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
)

// simResume is a file of finished results, one in each line. A result is found
// by all that it depends on: the program's version, the scenario with its seed,
// and how it was sought.
//
// A last line without an end was being written when a run died: it is cut off,
// with a note, and simulated again. Any other line that is no result is an
// error: the file is not ours.
type simResume struct {
	file  *os.File
	known map[string]*scenario.Outcome
}

func openSimResume(path string, notes io.Writer) (*simResume, error) {
	r := &simResume{known: map[string]*scenario.Outcome{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	number := 0
	for line := range bytes.Lines(text[:whole]) {
		number++
		var o scenario.Outcome
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			return nil, fmt.Errorf("--resume: %s:%d is no result of symphony sim: %w; give another file", path, number, err)
		}
		r.known[simKey(&o)] = &o
	}
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	if whole < len(text) {
		fmt.Fprintf(notes, "%s: the last line was not written to its end; it is simulated again\n", path)
	}
	if err := errors.Join(r.file.Truncate(int64(whole)), seekEnd(r.file)); err != nil {
		r.file.Close()
		return nil, fmt.Errorf("--resume: %w", err)
	}
	return r, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// simKey is what a result depends on.
func simKey(o *scenario.Outcome) string {
	tolerance := 0.0 // one run
	if o.Search != nil {
		tolerance = o.Search.Tolerance
	}
	text, err := json.Marshal(struct {
		Version   string
		Scenario  scenario.Scenario
		Tolerance float64
	}{o.Version, o.Scenario, tolerance})
	if err != nil {
		panic(err) // a Scenario is plain values: a bug
	}
	return string(text)
}

// find is the result under that key, or nil. A nil simResume knows none.
func (r *simResume) find(key string) *scenario.Outcome {
	if r == nil {
		return nil
	}
	return r.known[key]
}

// add keeps a result.
func (r *simResume) add(o *scenario.Outcome) error {
	if r == nil {
		return nil
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	return nil
}

func (r *simResume) close() error { return r.file.Close() }
