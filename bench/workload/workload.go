package workload

import (
	"errors"
	"fmt"

	"github.com/symphony-serving/symphony/transport/mono"
)

// ErrInvalid is the cause of every refused workload and of every bad trace.
var ErrInvalid = errors.New("invalid workload")

// Source yields arrivals in the order of time, instants counted from 0. It
// holds no more memory for a long run than for a short one. Not for concurrent
// use.
type Source interface {
	// Next is the next arrival; ok is false when there are no more.
	Next() (at mono.Time, model int, ok bool)
}

// Process names an arrival process.
type Process string

const (
	// Poisson arrivals: exponential gaps, what many independent users make.
	Poisson Process = "poisson"
	// Constant gaps.
	Constant Process = "constant"
	// Uniform gaps, between 0 and twice the mean.
	Uniform Process = "uniform"
	// Gamma-distributed gaps: below shape 1 arrivals come in bursts, shape 1 is
	// Poisson (Symphony, section 3.4.2).
	Gamma Process = "gamma"
)

// Bounds of what is accepted. Below the least shape nearly every gap is 0 and
// the rest are beyond any run.
const (
	shapeMin, shapeMax = 0.01, 100
)

func (p Process) check(shape float64) error {
	switch p {
	case Poisson, Constant, Uniform:
		return nil
	case Gamma:
		if shape >= shapeMin && shape <= shapeMax {
			return nil
		}
		return fmt.Errorf("%w: Gamma shape %g, must be %g to %d", ErrInvalid, shape, shapeMin, shapeMax)
	}
	return fmt.Errorf("%w: arrivals %q, must be poisson, gamma, uniform or constant", ErrInvalid, p)
}
