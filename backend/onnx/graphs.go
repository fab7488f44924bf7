//go:build cgo

package onnx

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/cuda"
)

// newProgram decides on graphs: TensorRT's provider has none that are safe (checkModel).
func newProgram(r *CUDA, c cuda.Context, s cuda.Stream, m *cuda.Model) *program {
	own := *m
	p := &program{runtime: r, context: c, stream: s, model: &own}
	switch {
	case own.Graphs != cuda.GraphsAuto:
	case own.Provider == cuda.ProviderTensorRT:
		own.Graphs = cuda.GraphsOff
	default:
		own.Graphs, p.attempt = cuda.GraphsOn, true
	}
	return p
}

// uncaptured is an error that may be that of a model which cannot be captured; nil: it is another's. What
// is not in the file, or has no room, does not come with graphs that are left out.
func (p *program) uncaptured(err error) error {
	err = deviceError(err)
	if !p.attempt || errors.Is(err, cuda.ErrMemory) || errors.Is(err, cuda.ErrLost) || errors.Is(err, ErrModel) {
		return nil
	}
	return fmt.Errorf("%w: %w", cuda.ErrCapture, err)
}
