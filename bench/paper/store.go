package paper

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// store is the results that are there, by description, and the file that they
// are appended to: one JSON object a line, the last one of a key counts.
type store struct {
	path string

	mu   sync.Mutex // Guards what follows.
	file *os.File
	done map[string]json.RawMessage
}

// record is a line.
type record struct {
	Key    json.RawMessage `json:"key"`
	Result json.RawMessage `json:"result"`
}

// openStore reads the results. fresh passes over them, but leaves them in the
// file: they may be of other figures, and each counts until a new one of its key
// stands behind it.
func openStore(path string, fresh bool) (*store, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	st := &store{path: path, file: f, done: map[string]json.RawMessage{}}
	if err := st.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if fresh {
		clear(st.done)
	}
	return st, nil
}

// read takes whole lines. One that a killed process left half is passed over,
// and ended, so that the next does not begin in its middle.
func (st *store) read() error {
	r := bufio.NewReaderSize(st.file, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		var k record
		if json.Unmarshal(line, &k) == nil && k.Key != nil {
			st.done[string(k.Key)] = k.Result
		}
		if err == io.EOF {
			if len(line) > 0 {
				_, err := st.file.Write([]byte{'\n'})
				return err
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (st *store) find(key string) (json.RawMessage, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	r, ok := st.done[key]
	return r, ok
}

func (st *store) add(key string, result json.RawMessage) error {
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

func (st *store) close() { st.file.Close() }
