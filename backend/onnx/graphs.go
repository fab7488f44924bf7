//go:build cgo

package onnx

import (
	"errors"

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
		own.Graphs, p.plain = cuda.GraphsOn, true
	}
	return p
}

// mayGoPlain: the error may be that of a model that cannot be captured.
func (p *program) mayGoPlain(err error) bool {
	return p.plain && !errors.Is(err, cuda.ErrMemory) && !errors.Is(err, cuda.ErrLost)
}

// goPlain begins anew without graphs. A run that failed while it was captured may have left its
// stream in that state. With an error Close is what can still be done.
func (p *program) goPlain(why error) error {
	p.runtime.options.Logger.Warn().Str("model", p.model.Spec.Key()).Err(why).
		Msg("it cannot be captured as CUDA graphs and runs without (cuda_graphs: false leaves out the attempt)")
	p.plain, p.model.Graphs = false, cuda.GraphsOff
	bound := p.bound
	err := errors.Join(p.stream.EndCapture(), p.Close())
	if p.held = 0; err == nil {
		err = p.measured(p.open)
	}
	if err != nil {
		return err
	}
	p.bound = make([][]*binding, len(bound))
	for slot, sizes := range bound {
		p.bound[slot] = make([]*binding, len(sizes))
		for size, b := range sizes {
			if b == nil {
				continue
			}
			if err := p.bind(slot, size, b.in, b.out); err != nil {
				return err
			}
			if b.ran { // as often as it has
				if err := p.Run(slot, size); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
