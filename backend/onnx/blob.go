//go:build cgo

package onnx

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Blob is a model's file in the host's memory, of which sessions are made without the disk. A session has
// its own copy of the weights.
type Blob struct {
	path    string
	spec    catalog.ModelSpec
	threads int
	data    []byte
}

// loadNiceness is that of threads which load what requests wait for: behind the executing ones, before
// what nobody waits for.
const loadNiceness = 10

// ReadBlob reads a model's file.
func ReadBlob(path string, spec *catalog.ModelSpec, threads int) (*Blob, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return &Blob{path: path, spec: *spec, threads: threads, data: data}, nil
}

// Open makes a session, which has run once, its largest batch: what it takes it has taken.
func (b *Blob) Open() (s *Session, err error) {
	priority := loadNiceness
	if b.threads > 1 {
		priority = niceness // threads that ONNX Runtime makes for it have that of who makes them
	}
	nice.Run(priority, func() { s, err = b.open() })
	return s, err
}

func (b *Blob) open() (*Session, error) {
	s, err := newSession(&b.spec, b.threads, func(in, out []string, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error) {
		return ort.NewDynamicAdvancedSessionWithONNXData(b.data, in, out, o)
	})
	if err == nil {
		if err = s.warm(b.spec.MaxBatch); err != nil {
			s.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s, from memory: %w", ErrModel, b.path, err)
	}
	return s, nil
}

// Measure checks the file against its specification, and says what a session takes: memory, as the process's resident
// set grows with the first one, but no less than the file has, and time. What else the process does meanwhile is in
// both: they are estimates, the scheduler learns the time by itself. The session is the caller's.
func (b *Blob) Measure() (s *Session, bytes int64, took mono.Dur, err error) {
	if err := checkFile(b.path, &b.spec); err != nil {
		return nil, 0, 0, err
	}
	before, begin := resident(), mono.Now()
	if s, err = b.Open(); err != nil {
		return nil, 0, 0, err
	}
	return s, max(int64(len(b.data)), resident()-before), mono.Now().Sub(begin), nil
}

// resident is how much of the process is in memory, bytes; 0: unknown.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// warm runs a session, a batch of each size.
func (s *Session) warm(sizes ...int) error {
	for _, n := range sizes {
		b := &executor.Batch{Size: n}
		for range n {
			b.Inputs, b.Outputs = append(b.Inputs, make([]byte, bytesOf(s.inputs))), append(b.Outputs, make([]byte, bytesOf(s.outputs)))
		}
		if err := s.Run(b); err != nil {
			return err
		}
	}
	return nil
}
