package simcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/symphony-serving/symphony/bench/sim/scenario"
	"github.com/symphony-serving/symphony/cmd/symphony/cli"
)

// resume is a file of finished results, one in each line. A result is found
// by all that it depends on: sim.CoreVersion, the scenario with its seed, and how
// it was sought. A result of another CoreVersion stays in the file, unused.
//
// Nothing is destroyed that is not ours. Every whole line must be a result. A
// last line without an end was being written when a run died: it is cut off,
// with a note, and simulated again. But only if it begins as a result does; where
// it is shorter than that beginning, a result must stand before it. Any other
// file is refused as it is.
type resume struct {
	file  *os.File
	known map[string]*scenario.Outcome
}

// recordBegin is how the JSON of a scenario.Outcome begins.
const recordBegin = `{"sim_core":`

func openResume(path string, notes io.Writer) (*resume, error) {
	r := &resume{known: map[string]*scenario.Outcome{}}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.FileError("resume", path, err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	number := 0
	for line := range bytes.Lines(text[:whole]) {
		number++
		o, err := readOutcome(line)
		if err != nil {
			return nil, fmt.Errorf("--resume: %s:%d is no result of symphony sim: %w; give another file", path, number, err)
		}
		r.known[keyOf(o)] = o
	}
	if tail := text[whole:]; !begun(tail, number > 0) {
		return nil, fmt.Errorf("--resume: %s:%d has no end, and does not begin as a result of symphony sim: give another file", path, number+1)
	}
	if r.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, cli.FileError("resume", path, err)
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

// readOutcome reads a line: a result, and nothing behind it.
func readOutcome(line []byte) (*scenario.Outcome, error) {
	var o scenario.Outcome
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more behind the JSON value")
	}
	if o.Core < 1 || len(o.Scenario.Models) == 0 || o.Models == nil {
		return nil, errors.New("sim_core, the scenario or the models' results are missing")
	}
	return &o, nil
}

// begun tells whether a line without an end is the begin of a result.
func begun(tail []byte, others bool) bool {
	if len(tail) < len(recordBegin) {
		return len(tail) == 0 || others && bytes.HasPrefix([]byte(recordBegin), tail)
	}
	return bytes.HasPrefix(tail, []byte(recordBegin))
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// keyOf is what a result depends on.
func keyOf(o *scenario.Outcome) string {
	tolerance := 0.0 // one run
	if o.Search != nil {
		tolerance = o.Search.Tolerance
	}
	text, err := json.Marshal(struct {
		Core      int
		Scenario  scenario.Scenario
		Tolerance float64
	}{o.Core, o.Scenario, tolerance})
	if err != nil {
		panic(err) // a Scenario is plain values: a bug
	}
	return string(text)
}

// find is the result under that key, or nil. A nil resume knows none.
func (r *resume) find(key string) *scenario.Outcome {
	if r == nil {
		return nil
	}
	return r.known[key]
}

// add keeps a result.
func (r *resume) add(o *scenario.Outcome) error {
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

func (r *resume) close() error { return r.file.Close() }
