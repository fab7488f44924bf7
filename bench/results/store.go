// Package results computes results side by side (Each), and keeps what was computed, so that
// a long benchmark that was interrupted goes on where it was: a file of JSON lines, a key and
// its result in each.
package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// Store is the results that are there, by description, and the file that they
// are appended to: one JSON object a line, the last one of a key counts.
//
// Every whole line must be a result: one that was passed over would silently
// cost its simulation again. A last line without an end was being written when a
// process was killed: it is cut off, and notes tell of it. But only if it begins
// as a result does, and a shorter one only behind a result; any other file is
// refused as it is.
type Store struct {
	path string
	of   string // the command that writes it, for errors

	mu   sync.Mutex // Guards what follows.
	file *os.File
	done map[string]json.RawMessage
}

// record is a line.
type record struct {
	Key    json.RawMessage `json:"key"`
	Result json.RawMessage `json:"result"`
}

// recordBegin is how the JSON of a record begins.
const recordBegin = `{"key":`

// Open reads the results that the command of has written; notes may be nil.
// fresh passes over them, but leaves them in the file: they may be of other
// figures, and each counts until a new one of its key stands behind it.
func Open(path, of string, fresh bool, notes io.Writer) (*Store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	st := &Store{path: path, of: of, file: f, done: map[string]json.RawMessage{}}
	if err := st.read(notes); err != nil {
		f.Close()
		return nil, err
	}
	if fresh {
		clear(st.done)
	}
	return st, nil
}

// read takes all lines. A last one that is whole but for its end is a result,
// and is ended, so that the next does not begin in its middle.
func (st *Store) read(notes io.Writer) error {
	r := bufio.NewReaderSize(st.file, 1<<20)
	whole := int64(0) // bytes of whole lines
	for number := 1; ; number++ {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", st.path, err)
		}
		if len(line) == 0 {
			return nil
		}
		ended, bad := err == nil, st.take(line)
		switch {
		case bad == nil && ended:
			whole += int64(len(line))
			continue
		case bad == nil:
			_, err = st.file.Write([]byte{'\n'})
		case ended || !begun(line, number > 1):
			return fmt.Errorf("%s:%d is no result of %s: %w; delete that line, and what it was is simulated again", st.path, number, st.of, bad)
		default:
			if notes != nil {
				fmt.Fprintf(notes, "%s: the last line was not written to its end; it is simulated again\n", st.path)
			}
			err = st.file.Truncate(whole)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", st.path, err)
		}
		return nil
	}
}

// take keeps a line's result.
func (st *Store) take(line []byte) error {
	var k record
	if err := json.Unmarshal(line, &k); err != nil {
		return err
	}
	if k.Key == nil || k.Result == nil {
		return errors.New("the key or the result is missing")
	}
	st.done[string(k.Key)] = k.Result
	return nil
}

// begun tells whether a line without an end is the begin of a result.
func begun(line []byte, others bool) bool {
	if len(line) < len(recordBegin) {
		return others && bytes.HasPrefix([]byte(recordBegin), line)
	}
	return bytes.HasPrefix(line, []byte(recordBegin))
}

// Find is the result of a key.
func (st *Store) Find(key string) (json.RawMessage, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r, ok := st.done[key]
	return r, ok
}

// Add keeps a result, in the file too; key is JSON.
func (st *Store) Add(key string, result json.RawMessage) error {
	line, err := json.Marshal(record{json.RawMessage(key), result})
	if err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.done[key] = result
	if _, err := st.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s: %w", st.path, err)
	}
	return nil
}

// Path is the file.
func (st *Store) Path() string { return st.path }

// Close closes the file.
func (st *Store) Close() { st.file.Close() }
