//go:build cgo

package onnx

import (
	"fmt"
	"io"
	"os"
	"runtime"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/pages"
)

// Blob is a model's file in the host's memory, of which sessions are made without the disk. A session has
// its own copy of the weights.
//
// The bytes lie outside the Go heap, where that can be: in it, files of some hundreds of megabytes would have the collector
// let garbage grow to a multiple of that. They go back when the Blob is closed, or found to be unreachable.
type Blob struct {
	path    string
	spec    catalog.ModelSpec
	threads int
	data    []byte
	mapped  runtime.Cleanup // gives data back
}

// loadNiceness is that of threads which load what requests wait for: behind the executing ones, before
// what nobody waits for.
const loadNiceness = 10

// ReadBlob reads a model's file.
func ReadBlob(path string, spec *catalog.ModelSpec, threads int) (*Blob, error) {
	b := &Blob{path: path, spec: *spec, threads: threads}
	if err := b.read(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return b, nil
}

func (b *Blob) read() error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > 0 {
		if mem, err := pages.Map(int(info.Size()), anyNode); err == nil {
			b.data, b.mapped = mem, runtime.AddCleanup(b, func(mem []byte) { _ = pages.Unmap(mem) }, mem)
			_, err = io.ReadFull(f, b.data)
			return err
		}
	}
	b.data, err = io.ReadAll(f)
	return err
}

// anyNode: where on a host the bytes lie does not matter.
const anyNode = -1

// Close gives the memory back before the collector finds out. No session is being made of the Blob, nor will be.
func (b *Blob) Close() {
	b.mapped.Stop()
	if b.mapped != (runtime.Cleanup{}) {
		_ = pages.Unmap(b.data)
	}
	b.data, b.mapped = nil, runtime.Cleanup{}
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
	runtime.KeepAlive(b) // and so its memory
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
	before, begin := Resident(), mono.Now()
	if s, err = b.Open(); err != nil {
		return nil, 0, 0, err
	}
	return s, max(int64(len(b.data)), Resident()-before), mono.Now().Sub(begin), nil
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
