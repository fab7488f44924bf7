//go:build !cgo

package onnx

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/symphony-serving/symphony/backend/cuda"
	"github.com/symphony-serving/symphony/backend/executor"
	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/catalog"
	"github.com/symphony-serving/symphony/transport/mono"
)

// Load says that this binary has no cgo.
func Load(string) error {
	return fmt.Errorf("%w: this binary was built with CGO_ENABLED=0; build it with cgo and a C compiler", ErrUnsupported)
}

// LogTo has nothing to take over.
func LogTo(zerolog.Logger) {}

// Version is empty without cgo.
func Version() string { return "" }

// CUDA is never made without cgo.
type CUDA struct{}

// NewCUDA fails without cgo.
func NewCUDA(CUDAOptions) (*CUDA, error) { return nil, Load("") }

// Load fails without cgo.
func (*CUDA) Load(cuda.Context, cuda.Stream, *cuda.Model) (cuda.Program, error) {
	return nil, ErrUnsupported
}

// Session is a loaded model.
type Session struct{}

// Open fails without cgo.
func Open(string, *catalog.ModelSpec, int) (*Session, error) { return nil, Load("") }

// OpenLater fails without cgo.
func OpenLater(string, *catalog.ModelSpec, int) (*Session, error) { return nil, Load("") }

// Close does nothing.
func (s *Session) Close() {}

// Run fails without cgo.
func (s *Session) Run(*executor.Batch) error { return ErrUnsupported }

// Device is never made without cgo.
type Device struct{}

// NewDevice is never called without cgo: Open fails first.
func NewDevice([]*Session) *Device { return &Device{} }

// Launch fails the batch.
func (d *Device) Launch(b *executor.Batch) { b.Finish(0, 0, ErrUnsupported) }

// Load fails without cgo.
func (d *Device) Load(int, *Session) error { return ErrUnsupported }

// Unload has nothing to give.
func (d *Device) Unload(int) *Session { return nil }

// Session is none.
func (d *Device) Session(int) *Session { return nil }

// Stop does nothing.
func (d *Device) Stop() {}

// Close does nothing.
func (d *Device) Close() {}

// Beside is never made without cgo.
type Beside struct{ Device }

// Ended is never called.
func (*Beside) Ended() <-chan struct{} { return nil }

// NewBeside fails without cgo.
func NewBeside(context.Context, *Session, int, bool) (*Beside, error) { return nil, Load("") }

// Blob is a model's file in the host's memory.
type Blob struct{}

// ReadBlob fails without cgo.
func ReadBlob(string, *catalog.ModelSpec, int, *warmup.Inputs) (*Blob, error) { return nil, Load("") }

// Close has nothing to give back.
func (*Blob) Close() {}

// Measure fails without cgo.
func (*Blob) Measure() (*Session, int64, mono.Dur, error) { return nil, 0, 0, Load("") }

// Open fails without cgo.
func (*Blob) Open() (*Session, error) { return nil, Load("") }

// Paged is never made without cgo: Load fails first.
type Paged struct{ Device }

// NewPaged fails without cgo.
func NewPaged(int, int64) (*Paged, error) { return nil, Load("") }

// Put does nothing.
func (*Paged) Put(int, *Blob) {}

// Take has nothing to give.
func (*Paged) Take(int) *Blob { return nil }

// Pages are none.
func (*Paged) Pages() int { return 0 }

// Load fails without cgo.
func (*Paged) Load(_ int, done func(executor.Copied)) { done(executor.Copied{Err: ErrUnsupported}) }

// Unload has nothing to end.
func (*Paged) Unload(_ int, done func()) { done() }
