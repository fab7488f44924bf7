package cuda

import (
	"errors"

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

// warmRun is timed for a model's first runs. The error of a model that fails at its first run
// says what may be wrong. (Other inputs are not tried, as on processors: kernels of GPUs do not look at what
// they divide by, or at positions.) On the run thread.
func (p *pipeline) warmRun(e *slot, s *served, slot, n int) (mono.Dur, error) {
	length, err := p.timed(e, s.program, slot, n)
	if err != nil && !s.ran && !notOfInputs(err) {
		err = &warmup.FailedError{On: s.m.Warmup, Err: err}
	}
	s.ran = s.ran || err == nil
	return length, err
}

// notOfInputs reports whether a run failed for another reason than its inputs.
func notOfInputs(err error) bool {
	return errors.Is(err, ErrLost) || errors.Is(err, ErrMemory) || errors.Is(err, ErrCapture)
}
