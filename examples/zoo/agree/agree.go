// Package agree compares the outputs of one model on two devices, or by two programs, with
// the tolerances that the zoo states.
package agree

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/transport/catalog"
)

// Tolerance is how far a GPU's outputs may be from a CPU's of the same file, or those of a
// converted file from the original's: a Difference's Relative. Products of TF32 have as
// many bits as those of FP16.
func Tolerance(p nets.Precision) float64 {
	if p == nets.FP32 {
		return 1e-3
	}
	return 2e-2
}

// Same is the tolerance of two programs that compute in float32 on a CPU, whose sums
// differ only in their order.
const Same = 1e-4

// Difference is how far outputs are from each other.
type Difference struct {
	Absolute float64 // largest
	// Relative is the largest difference in a tensor over the largest magnitude in that
	// tensor. Relative to each number by itself it would say nothing: some are sums of
	// large terms that end near zero.
	Relative float64
	Where    string // the largest relative one is
	Argmax   bool   // the largest number of each tensor is at the same place
}

// Outputs compares one item's outputs, as slabs have them, with those that are right.
// What is not a finite number is an error, as is any type but FP32.
func Outputs(specs []catalog.TensorSpec, got, want []byte) (Difference, error) {
	d := Difference{Argmax: true}
	for _, s := range specs {
		n := int(s.ByteSize())
		if s.Type != catalog.FP32 {
			return d, fmt.Errorf("output %s is %s; only FP32 is compared", s.Name, s.Type)
		}
		if len(got) < n || len(want) < n {
			return d, fmt.Errorf("output %s: %d and %d bytes, want %d", s.Name, len(got), len(want), n)
		}
		if err := d.tensor(s.Name, got[:n], want[:n]); err != nil {
			return d, err
		}
		got, want = got[n:], want[n:]
	}
	if len(got)+len(want) > 0 {
		return d, fmt.Errorf("%d and %d bytes more than the outputs have", len(got), len(want))
	}
	return d, nil
}

func (d *Difference) tensor(name string, got, want []byte) error {
	large, apart, where := 0.0, 0.0, ""
	topGot, topWant := math.Inf(-1), math.Inf(-1)
	atGot, atWant := 0, 0
	for i := range len(want) / 4 {
		g, w := number(got, i), number(want, i)
		if g-g != 0 || w-w != 0 { // infinite, or none
			return fmt.Errorf("output %s[%d] is %v, want %v: not finite", name, i, g, w)
		}
		if diff := math.Abs(g - w); diff > apart {
			apart, where = diff, fmt.Sprintf("%s[%d]: %v, want %v", name, i, g, w)
		}
		large = max(large, math.Abs(w))
		if g > topGot {
			topGot, atGot = g, i
		}
		if w > topWant {
			topWant, atWant = w, i
		}
	}
	d.Absolute, d.Argmax = max(d.Absolute, apart), d.Argmax && atGot == atWant
	relative := 0.0
	if apart > 0 {
		relative = apart / large // infinite where all should be 0
	}
	if relative > d.Relative {
		d.Relative, d.Where = relative, where
	}
	return nil
}

func number(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// Within is nil when the difference is at most a tolerance.
func (d Difference) Within(tolerance float64) error {
	if d.Relative <= tolerance {
		return nil
	}
	return fmt.Errorf("outputs differ by %.2g of the largest, tolerated are %.2g (%s)", d.Relative, tolerance, d.Where)
}

// Worse joins two differences.
func (d Difference) Worse(o Difference) Difference {
	if o.Relative > d.Relative {
		d.Relative, d.Where = o.Relative, o.Where
	}
	d.Absolute, d.Argmax = max(d.Absolute, o.Absolute), d.Argmax && o.Argmax
	return d
}
