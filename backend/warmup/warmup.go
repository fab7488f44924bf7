// Package warmup makes the inputs of runs that come before a model's first request: the runs
// that load it, measure its latency profile, weigh it, and capture its CUDA graphs.
//
// A model's config.yaml may say what they are (Setting). Where it does not, they are zeros, and
// where a run on zeros fails, each number is the same small one: most models that refuse zeros
// refuse them as divisors or as positions.
//
// What is made depends on the setting and the item's position alone: the same runs get the same
// inputs each time, on every host.
package warmup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// Inputs are what warm-up runs of a model get. nil is the default. Immutable.
type Inputs struct {
	tensors []tensor // as the model's inputs; nil: all are constant
	value   float64  // of each number, where tensors is nil
	print   string   // of the setting, with its files
}

// tensor is how one input is made.
type tensor struct {
	name   string
	kind   kind
	lo, hi float64 // of random
	file   string
	data   []byte // of the file: whole items
}

type kind uint8

const (
	zeros kind = iota
	random
	file
)

// guesses are the numbers that runs without a setting try after zeros, in this order.
func guesses() []float64 { return []float64{1, 10, 100, 1000, 10000} }

// Others are tried, in their order, where a run on in fails; none where config.yaml says the
// inputs.
func (in *Inputs) Others() (all []*Inputs) {
	if in != nil {
		return nil
	}
	for _, v := range guesses() {
		all = append(all, &Inputs{value: v})
	}
	return all
}

// Print is the setting's identity, with the bytes of its files; "" is the default's.
func (in *Inputs) Print() string {
	if in == nil {
		return ""
	}
	return in.print
}

// String says what the inputs are, to people.
func (in *Inputs) String() string {
	switch {
	case in == nil:
		return "zeros"
	case in.tensors == nil:
		return fmt.Sprintf("inputs of %g", in.value)
	}
	var all []string
	for _, t := range in.tensors {
		switch t.kind {
		case random:
			all = append(all, fmt.Sprintf("%s random in %g to %g", t.name, t.lo, t.hi))
		case file:
			all = append(all, fmt.Sprintf("%s of the file %s", t.name, t.file))
		default:
			all = append(all, t.name+" zeros")
		}
	}
	return "the inputs of its setting warmup (" + strings.Join(all, ", ") + ")"
}

// Fill writes item number i's tensors into dst, one behind the other.
func (in *Inputs) Fill(specs []catalog.TensorSpec, i int, dst []byte) {
	for t := range specs {
		n := specs[t].ByteSize()
		in.FillTensor(specs, t, i, dst[:n])
		dst = dst[n:]
	}
}

// FillTensor writes item number i of input number t.
func (in *Inputs) FillTensor(specs []catalog.TensorSpec, t, i int, dst []byte) {
	switch {
	case in == nil:
		clear(dst)
	case in.tensors == nil:
		constant(dst, specs[t].Type, in.value)
	default:
		in.tensors[t].fill(&specs[t], t, i, dst)
	}
}

func (t *tensor) fill(spec *catalog.TensorSpec, at, i int, dst []byte) {
	switch t.kind {
	case random:
		size := spec.Type.Size()
		for k := 0; k*size < len(dst); k++ {
			put(dst[k*size:], spec.Type, between(spec.Type, t.lo, t.hi, draw(uint64(at), uint64(i), uint64(k))))
		}
	case file:
		items := len(t.data) / len(dst)
		copy(dst, t.data[i%items*len(dst):])
	default:
		clear(dst)
	}
}

// draw is a number from three positions: splitmix64.
func draw(tensor, item, element uint64) uint64 {
	z := tensor<<48 ^ item<<36 ^ element
	z = (z + 1) * 0x9E3779B97F4A7C15
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// FailedError is a warm-up run that failed on each of the inputs that were tried.
type FailedError struct {
	On    *Inputs // the first ones that were tried
	Tried int     // how many others
	Err   error   // of the run on the first ones
}

// Error says on what, why, and what to do.
func (e *FailedError) Error() string {
	switch {
	case e.Tried > 0:
		return fmt.Sprintf("its warm-up run on zeros failed, and on inputs of 1, 10, 100, 1000 and 10000: set warmup in config.yaml to inputs that it takes: %v", e.Err)
	case e.On == nil:
		return fmt.Sprintf("its warm-up run on zeros failed: set warmup in config.yaml to inputs that it takes: %v", e.Err)
	}
	return fmt.Sprintf("its warm-up run on %v failed: correct warmup in config.yaml: %v", e.On, e.Err)
}

func (e *FailedError) Unwrap() error { return e.Err }

// Try runs a first batch on in, and where that fails on the Others, until one runs. It returns
// the inputs that the model takes. An error that final says is none of the inputs' comes back as
// it is, at once; else it is a *FailedError.
func Try(in *Inputs, final func(error) bool, run func(*Inputs) error) (*Inputs, error) {
	first := run(in)
	if first == nil {
		return in, nil
	}
	if final(first) {
		return in, first
	}
	failed := &FailedError{On: in, Err: first}
	for _, other := range in.Others() {
		err := run(other)
		if err == nil {
			return other, nil
		}
		if final(err) {
			return in, errors.Join(failed, err)
		}
		failed.Tried++
	}
	return in, failed
}
