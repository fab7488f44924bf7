package catalog

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		spec     TensorSpec
		elements int64
		bytes    int64
	}{
		{TensorSpec{Type: FP32, Shape: []int64{1, 8, 8}}, 64, 256},
		{TensorSpec{Type: FP16, Shape: []int64{3}}, 3, 6},
		{TensorSpec{Type: Bool}, 1, 1},
		{TensorSpec{Type: Int64, Shape: []int64{2, 2}}, 4, 32},
		{TensorSpec{Type: Bytes, Shape: []int64{5}}, 5, -1},
		{TensorSpec{Type: "FLOAT", Shape: []int64{5}}, 5, -1},
	} {
		if c.spec.Elements() != c.elements || c.spec.ByteSize() != c.bytes {
			t.Errorf("%+v: %d elements, %d bytes", c.spec, c.spec.Elements(), c.spec.ByteSize())
		}
	}
}

// A model list survives its way as JSON; labels stay, and their digest goes in their place.
func TestModelsRoundTrip(t *testing.T) {
	in := []ModelSpec{{Name: "m", Version: "1", SLO: 5, MaxBatch: 4, Inputs: []TensorSpec{{"x", FP32, []int64{4}}},
		Image: &ImageSpec{Layout: "NCHW", Channels: 3, Mean: []float64{0.5}}, Profile: Profile{Alpha: 1, Beta: 2}}, {Name: "n", Labels: []string{"cat", "dog"}}}
	b, d, err := EncodeModels(in)
	if err != nil || d != DigestOf(b) || !d.Valid() {
		t.Fatalf("digest %q, %v", d, err)
	}
	var out ModelList
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	labels, id, _ := EncodeLabels(in[1].Labels)
	if string(labels) != `["cat","dog"]` || out.Models[1].LabelsID != id || len(out.Models[1].Labels) != 0 {
		t.Errorf("%s became %+v", b, out.Models[1])
	}
	if !reflect.DeepEqual(in[0], out.Models[0]) {
		t.Errorf("%s became %+v", b, out.Models[0])
	}
	in[1].Labels[0] = "cow"
	if _, other, _ := EncodeModels(in); other == d {
		t.Error("other labels, and the same digest")
	}
	for _, bad := range []Digest{"", "m", d[1:], d + "00", "zz" + d[2:]} {
		if bad.Valid() {
			t.Errorf("%q is a digest", bad)
		}
	}
}

func TestInputBytes(t *testing.T) {
	m := ModelSpec{Inputs: []TensorSpec{{Name: "x", Type: FP32, Shape: []int64{3, 4}}, {Name: "text", Type: Bytes, Shape: []int64{1}}, {Name: "n", Type: Int64, Shape: []int64{1}}}}
	if n := m.InputBytes(); n != 3*4*4+8 {
		t.Errorf("%d bytes", n)
	}
}
