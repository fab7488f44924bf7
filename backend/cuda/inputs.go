package cuda

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/backend/warmup"
	"github.com/symphony-serving/symphony/transport/mono"
)

// fill writes warm-up inputs of the largest batch into a slot's place on the device, by a stream
// that no batch uses. What they leave between the tensors is zeros.
func (s *served) fill(by Stream, at Ptr, in *warmup.Inputs) error {
	if err := zero(by, at, s.in.bytes); err != nil || in == nil {
		return err
	}
	specs := s.m.Spec.Inputs
	for t, to := range s.in.tensors {
		item := make([]byte, to.item)
		for i := range s.m.Spec.MaxBatch {
			in.FillTensor(specs, t, i, item)
			if err := by.CopyIn(at+Ptr(to.at)+Ptr(i*to.item), item); err != nil {
				return err
			}
		}
	}
	return by.Synchronize()
}

// refill fills both slots. On the run thread.
func (p *pipeline) refill(s *served, in *warmup.Inputs) error {
	by, err := p.ctx.NewStream(false)
	if err != nil {
		return err
	}
	defer func() { p.give(by.Close()) }()
	for _, at := range s.slots {
		if err := s.fill(by, at.in, in); err != nil {
			return err
		}
	}
	return nil
}

// warmRun is timed for a model's first runs: until one has succeeded it looks for inputs that the
// model takes. On the run thread.
func (p *pipeline) warmRun(e *slot, s *served, slot, n int) (length mono.Dur, err error) {
	if s.ran {
		return p.timed(e, s.program, slot, n)
	}
	first := true
	used, err := warmup.Try(s.m.Warmup, notOfInputs, func(in *warmup.Inputs) error {
		if !first {
			if err := p.refill(s, in); err != nil {
				return err
			}
		}
		first = false
		length, err = p.timed(e, s.program, slot, n)
		return err
	})
	if s.ran = err == nil; s.ran && used != s.m.Warmup {
		p.o.Warn(fmt.Errorf("%s: model %s refuses %v: it is warmed up with %v (warmup in its config.yaml says others)", p.name(), s.m.Spec.Key(), s.m.Warmup, used))
	}
	return length, err
}

// notOfInputs reports whether a run failed for another reason than its inputs.
func notOfInputs(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrMemory) || errors.Is(err, ErrCapture)
}
