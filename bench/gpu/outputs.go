package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/symphony-serving/symphony/transport/mono"
)

// outputs are the GPU's against the CPU's.
type outputs struct {
	Models []*outputsOf `json:"models"`
}

// outputsOf is one model's.
type outputsOf struct {
	Model     string  `json:"model"`
	Precision string  `json:"precision"`
	Items     int     `json:"items"` // different inputs
	Sizes     []int   `json:"sizes"` // of the batches they came in
	Compared  int     `json:"compared"`
	Relative  float64 `json:"relative"` // the largest difference
	Where     string  `json:"where,omitempty"`
	Tolerance float64 `json:"tolerance"`
	Argmax    int     `json:"argmax_equal"` // outputs whose largest number is at the same place
	Needed    bool    `json:"argmax_needed"`
	Seconds   float64 `json:"cpu_seconds"` // that the CPU took
	Error     string  `json:"error,omitempty"`
}

// itemsMost bounds how many inputs of a model are compared.
const itemsMost = 32

// compareOutputs runs each model's inputs on the CPU, one by one, and on the GPU in batches
// of several sizes: alone, in an odd size that may be filled up, and in the largest.
func compareOutputs(ctx context.Context, b *bench) (section, error) {
	d, err := b.open(ctx)
	if err != nil {
		return nil, err
	}
	if d.CPU == nil {
		return nil, fmt.Errorf("nothing to compare with on the CPU: %s", d.NoCPU)
	}
	all, errs := &outputs{}, slices.Clone(d.Refused)
	for i := range d.Models {
		one, err := d.compare(ctx, i, leftOf(ctx)/mono.Dur(len(d.Models)-i))
		if one != nil {
			all.Models = append(all.Models, one)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.Models[i].Spec.Key(), err))
			if one != nil {
				one.Error = err.Error()
			}
		}
		if ctx.Err() != nil || errors.Is(err, errHang) {
			break
		}
	}
	return all, errors.Join(errs...)
}

// compare is of one model, in about a span of time.
func (d *Direct) compare(ctx context.Context, index int, span mono.Dur) (*outputsOf, error) {
	m := &d.Models[index]
	one := &outputsOf{Model: m.Spec.Key(), Precision: string(m.Precision), Tolerance: m.Tolerance, Needed: m.Argmax}
	right, err := d.onCPU(ctx, m, span*2/3)
	one.Items = len(right.outputs)
	one.Seconds = right.took.Seconds()
	if err != nil {
		return one, err
	}
	for _, size := range sizesToCompare(m.Sizes) {
		if err := d.compareSize(ctx, index, size, right.outputs, one); err != nil {
			return one, err
		}
		one.Sizes = append(one.Sizes, size)
	}
	switch {
	case !(one.Relative <= m.Tolerance):
		return one, fmt.Errorf("outputs differ by %.2g of the largest, tolerated are %g (%s)", one.Relative, m.Tolerance, one.Where)
	case m.Argmax && one.Argmax < one.Compared:
		return one, fmt.Errorf("%d of %d outputs have their largest number at another place", one.Compared-one.Argmax, one.Compared)
	}
	return one, nil
}

// reference is what the CPU computes.
type reference struct {
	outputs [][]byte
	took    mono.Dur
}

// onCPU runs as many items as the time allows, and one at least.
func (d *Direct) onCPU(ctx context.Context, m *Model, span mono.Dur) (r reference, err error) {
	begin := mono.Now()
	for i := range min(itemsMost, max(1, m.Items)) {
		if i > 0 && mono.Now().Sub(begin) > span {
			break
		}
		s, err := newShot(m.Spec, m.CPU, 1, heap, func(int) []byte { return m.Item(i) })
		if err == nil {
			_, err = s.run(ctx, d.CPU)
		}
		if err != nil {
			return r, fmt.Errorf("on the CPU: %w", err)
		}
		r.outputs = append(r.outputs, s.batch.Output)
		r.took = mono.Now().Sub(begin)
	}
	return r, nil
}

// sizesToCompare are the smallest of the ladder, one beside it, and the largest.
func sizesToCompare(sizes []int) []int {
	most := 1
	if len(sizes) > 0 {
		most = sizes[len(sizes)-1]
	}
	out := []int{1}
	if most > 4 {
		out = append(out, 3)
	}
	if most > 1 {
		out = append(out, most)
	}
	return out
}

// compareSize runs all items in batches of a size, each once at least.
func (d *Direct) compareSize(ctx context.Context, index, size int, right [][]byte, one *outputsOf) error {
	m := &d.Models[index]
	limited := *m
	limited.Items = len(right)
	for first := 0; first < len(right); first += size {
		s, free, err := d.shot(&limited, index, size, first)
		if err != nil {
			return err
		}
		if _, err = s.run(ctx, d.GPU); err == nil {
			for i, got := range s.batch.Outputs {
				if err = one.add(m, got, right[(first+i)%len(right)]); err != nil {
					break
				}
			}
		}
		free()
		if err != nil {
			return fmt.Errorf("a batch of %d: %w", size, err)
		}
	}
	return nil
}

func (o *outputsOf) add(m *Model, got, want []byte) error {
	diff, err := m.Compare(got, want)
	if err != nil {
		return err
	}
	o.Compared++
	if diff.Argmax {
		o.Argmax++
	}
	if diff.Relative > o.Relative || math.IsNaN(diff.Relative) {
		o.Relative, o.Where = diff.Relative, diff.Where
	}
	return nil
}

func (o *outputs) summary() string {
	n, most := 0, 0.0
	for _, m := range o.Models {
		n += m.Compared
		most = max(most, m.Relative/m.Tolerance)
	}
	return fmt.Sprintf("%d outputs of %d models, the largest difference %.0f %% of what is tolerated", n, len(o.Models), 100*most)
}

func (o *outputs) pictures() []named { return nil }

func (o *outputs) table() [][]string {
	t := [][]string{{"model", "precision", "items", "sizes", "compared", "relative", "tolerance", "argmax_equal"}}
	for _, m := range o.Models {
		t = append(t, []string{m.Model, m.Precision, fmt.Sprint(m.Items), join(m.Sizes, " "), fmt.Sprint(m.Compared), precise(m.Relative), precise(m.Tolerance), fmt.Sprint(m.Argmax)})
	}
	return t
}

func (o *outputs) text() string {
	t := grid{{"model", "precision", "inputs", "in batches of", "outputs", "largest difference", "tolerated", "same argmax", "verdict"}}
	for _, m := range o.Models {
		verdict := "equal enough"
		if m.Error != "" {
			verdict = firstLine(m.Error)
		}
		argmax := fmt.Sprintf("%d of %d", m.Argmax, m.Compared)
		if !m.Needed {
			argmax += " (not demanded)"
		}
		t = append(t, []string{m.Model, m.Precision, fmt.Sprint(m.Items), join(m.Sizes, ", "), fmt.Sprint(m.Compared), fmt.Sprintf("%.1e", m.Relative), fmt.Sprintf("%.0e", m.Tolerance), argmax, verdict})
	}
	return "Differences are relative to the largest number of the tensor.\n\n" + t.String()
}
