//go:build cgo

package onnx

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/symphony-serving/symphony/backend/nice"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/cgo/onnxrt"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
	"github.com/symphony-serving/symphony/transport/pages"
)

// Blob is a model in the host's memory, of which sessions are made without the disk.
//
// It is the model as ONNX Runtime has optimised it, in its own format: nothing is parsed or optimised anew, and sessions use these bytes where
// they need no arrangement of their own for the weights. What a session has for itself is that arrangement. (A third of the processor's time
// that the file takes, and once the weights in memory, not twice or three times, while it is made.) A model that cannot
// be had so is its file, and its sessions have their own copies.
//
// The bytes go back when the Blob is closed, or found to be unreachable, and no session is left (pages.File).
type Blob struct {
	path      string
	spec      catalog.ModelSpec
	threads   int
	inputs    *warmup.Inputs // of first runs
	optimised bool           // data is, and sessions use it
	data      *pages.File

	mu       sync.Mutex // Guards what follows.
	weighs   int64      // what a session was measured to take; 0: it was not
	sessions int        // that use data
	closed   bool
}

// loadNiceness is that of threads which load what requests wait for: behind the executing ones, before
// what nobody waits for.
const loadNiceness = 10

// ReadBlob reads a model's file. Sessions run on inputs first.
func ReadBlob(path string, spec *catalog.ModelSpec, threads int, inputs *warmup.Inputs) (*Blob, error) {
	b := &Blob{path: path, spec: *spec, threads: threads, inputs: inputs}
	nice.Run(nice.Most, func() { b.optimised = b.optimise() == nil })
	if b.optimised {
		return b, nil
	}
	if err := b.readFile(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return b, nil
}

// optimise makes the bytes from a session of the file, and tries them.
func (b *Blob) optimise() error {
	f, path, err := scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := newSession(&b.spec, b.threads, func(in, out []string, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error) {
		if err := errors.Join(o.AddSessionConfigEntry("session.save_model_format", "ORT"), o.SetOptimizedModelFilePath(path)); err != nil {
			return nil, err
		}
		return ort.NewDynamicAdvancedSession(b.path, in, out, o)
	})
	if err != nil {
		return err
	}
	s.Close()
	if b.data, err = pages.ReadFile(f); err != nil {
		return err
	}
	if s, err = b.session(true); err != nil {
		b.data.Close()
		return err
	}
	s.Close()
	return nil
}

func (b *Blob) readFile() error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	b.data, err = pages.ReadFile(f)
	return err
}

// Close gives the memory back, once its sessions are closed, before the collector finds out. No session is being made of the Blob, nor will be.
func (b *Blob) Close() {
	b.mu.Lock()
	b.closed = true
	last := b.sessions == 0
	b.mu.Unlock()
	if last {
		b.data.Close()
	}
}

// left is the end of a session that used the bytes.
func (b *Blob) left() {
	b.mu.Lock()
	b.sessions--
	last := b.closed && b.sessions == 0
	b.mu.Unlock()
	if last {
		b.data.Close()
	}
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
	s, err := b.session(b.optimised)
	if err == nil {
		var refused *warmup.FailedError
		if err = s.warm(&b.spec, b.spec.MaxBatch, b.inputs); errors.As(err, &refused) {
			err = nil // requests may have inputs that it takes: the measuring says what to set
		}
		if err != nil {
			s.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s, from memory: %w", ErrModel, b.path, err)
	}
	return s, nil
}

// inPlace has a session use the bytes that it is made of, for as long as it lives.
var inPlace = []string{"session.use_ort_model_bytes_directly", "session.use_ort_model_bytes_for_initializers"}

// session makes one of the bytes. One of an optimised model keeps them until it is closed.
func (b *Blob) session(optimised bool) (*Session, error) {
	s, err := newSession(&b.spec, b.threads, func(in, out []string, o *ort.SessionOptions) (*ort.DynamicAdvancedSession, error) {
		if err := onnxrt.SessionKeeps(o); err != nil {
			return nil, err
		}
		if optimised {
			if err := o.AddSessionConfigEntry("session.load_model_format", "ORT"); err != nil {
				return nil, err
			}
			for _, key := range inPlace {
				if err := o.AddSessionConfigEntry(key, "1"); err != nil {
					return nil, err
				}
			}
		}
		return ort.NewDynamicAdvancedSessionWithONNXData(b.data.Bytes(), in, out, o)
	})
	runtime.KeepAlive(b) // and so its memory
	if err == nil && optimised {
		s.of = b
		b.mu.Lock()
		b.sessions++
		b.mu.Unlock()
	}
	return s, err
}

// Measure checks the file against its specification, and says what a session takes: memory, as the process's resident
// set grows with the first one, but no less than the bytes that it is made of, and time. What else the process does meanwhile is in
// both: they are estimates, the scheduler learns the time by itself. The session is the caller's.
func (b *Blob) Measure() (s *Session, bytes int64, took mono.Dur, err error) {
	if err := checkFile(b.path, &b.spec); err != nil {
		return nil, 0, 0, err
	}
	onnxrt.Trim() // in memory that is kept from others it would not grow
	before, begin := Resident(), mono.Now()
	if s, err = b.Open(); err != nil {
		return nil, 0, 0, err
	}
	took, bytes = mono.Now().Sub(begin), max(int64(len(b.data.Bytes())), Resident()-before)
	b.mu.Lock()
	b.weighs = bytes
	b.mu.Unlock()
	return s, bytes, took, nil
}

// size is what a session takes, bytes: as it was measured, or those of the file.
func (b *Blob) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.weighs, int64(len(b.data.Bytes())))
}
