package agree

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/symphony-serving/symphony/examples/zoo/nets"
	"github.com/symphony-serving/symphony/transport/catalog"
)

func floats(v ...float64) (out []byte) {
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
	}
	return out
}

func vector(name string, n int64) catalog.TensorSpec {
	return catalog.TensorSpec{Name: name, Type: catalog.FP32, Shape: []int64{n}}
}

// Each tensor is measured by its own largest number.
func TestOutputs(t *testing.T) {
	specs := []catalog.TensorSpec{vector("a", 3), vector("b", 2)}
	want := floats(1, -4, 2, 1000, 10)
	for _, c := range []struct {
		name               string
		got                []byte
		absolute, relative float64
		argmax             bool
	}{
		{"equal", floats(1, -4, 2, 1000, 10), 0, 0, true},
		{"small tensor", floats(1, -3, 2, 1000, 10), 1, 0.25, true},
		{"large tensor", floats(1, -4, 2, 1002, 10), 2, 0.002, true},
		{"another is largest", floats(2.5, -4, 2, 1000, 10), 1.5, 0.375, false},
		{"both", floats(1, -4.5, 2, 0, 10), 1000, 1, false},
	} {
		d, err := Outputs(specs, c.got, want)
		if err != nil || math.Abs(d.Absolute-c.absolute) > 1e-5 || math.Abs(d.Relative-c.relative) > 1e-6 || d.Argmax != c.argmax {
			t.Errorf("%s: %+v, %v", c.name, d, err)
		}
		if err := d.Within(0.25); (err != nil) != (c.relative > 0.25) {
			t.Errorf("%s: within 0.25: %v", c.name, err)
		}
	}
}

// What cannot be compared is an error, never a small difference.
func TestOutputsRefuses(t *testing.T) {
	one := []catalog.TensorSpec{vector("a", 1)}
	for want, c := range map[string]struct {
		specs     []catalog.TensorSpec
		got, want []byte
	}{
		"a[0] is NaN":      {one, floats(math.NaN()), floats(1)},
		"want +Inf":        {one, floats(1), floats(math.Inf(1))},
		"0 and 4 bytes":    {one, nil, floats(1)},
		"4 and 0 bytes mo": {one, floats(1, 2), floats(1)},
		"only FP32":        {[]catalog.TensorSpec{{Name: "a", Type: catalog.Int64}}, nil, nil},
	} {
		if _, err := Outputs(c.specs, c.got, c.want); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	d, err := Outputs(one, floats(1e-30), floats(0))
	if err != nil || d.Within(1e6) == nil {
		t.Errorf("something where nothing should be: %+v, %v", d, err)
	}
}

func TestWorse(t *testing.T) {
	a, b := Difference{Absolute: 2, Relative: 0.1, Where: "a", Argmax: true}, Difference{Absolute: 1, Relative: 0.2, Where: "b", Argmax: true}
	if got := a.Worse(b); got != (Difference{2, 0.2, "b", true}) || got != b.Worse(a) {
		t.Errorf("%+v", got)
	}
}

func TestTolerances(t *testing.T) {
	for p, want := range map[nets.Precision]float64{nets.FP32: 1e-3, nets.TF32: 2e-2, nets.FP16: 2e-2} {
		if got := Tolerance(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}
