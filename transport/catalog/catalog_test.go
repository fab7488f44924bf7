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

// Documents survive their way as JSON.
func TestRoundTrip(t *testing.T) {
	in := BackendInfo{Name: "b", Pools: []Pool{{DeviceType: "cpu", Devices: 2, Models: []ModelSpec{{Name: "m", Version: "1", SLO: 5, MaxBatch: 4,
		Inputs: []TensorSpec{{"x", FP32, []int64{4}}}, Image: &ImageSpec{Layout: "NCHW", Channels: 3, Mean: []float64{0.5}}, Profile: Profile{Alpha: 1, Beta: 2}}}}}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out BackendInfo
	if err := json.Unmarshal(text, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("%s became %+v, %v", text, out, err)
	}
}
