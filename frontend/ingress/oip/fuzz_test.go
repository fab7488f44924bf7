package oip

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/symphony-serving/symphony/transport/catalog"
)

// FuzzParseRequest: what is taken is JSON for the standard library too (with
// the exception of data, which is checked when decoded), every refusal is an
// *Error, and decoding never makes more than the shape says.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"id":"1","parameters":{"timeout":5,"priority":255,"details":true,"binary_data_output":true},"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2.5,-3e2]}],"outputs":[{"name":"y","parameters":{"binary_data":false,"classification":3}}]}`))
	f.Add([]byte(`{"inputs":[{"data":[["a\u00e9\ud83d\ude00","]"],["",""]],"name":"x","shape":[2,2],"datatype":"BYTES"}]}`))
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[2],"datatype":"BOOL","data":[true,0]},{"name":"z","shape":[1],"datatype":"INT8","data":[-128]}]}`))
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[9223372036854775807,2],"datatype":"UINT64","data":[[[[[[`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Request
		if err := r.ParseRequest(body, nil); err != nil {
			demandError(t, err)
			return
		}
		clean := true
		for i := range r.Inputs {
			in := &r.Inputs[i]
			n, ok := Elements(in.Shape)
			if !ok {
				t.Fatalf("shape %v overflows", in.Shape)
			}
			b, err := in.Decode(nil, i)
			if err != nil {
				demandError(t, err)
				clean = false
				continue
			}
			if int64(len(b)) != n*int64(in.Type.Size()) {
				t.Fatalf("%d bytes for %v of %s", len(b), in.Shape, in.Type)
			}
		}
		if clean && !json.Valid(body) {
			t.Fatalf("taken, but no JSON: %q", body)
		}
	})
}

func demandError(t *testing.T, err error) {
	var e *Error
	if !errors.As(err, &e) || e.Msg == "" {
		t.Fatalf("%T %v is no *Error", err, err)
	}
}

// FuzzBinary: whatever the header says, a tensor lies inside the body, fits
// its shape, and the tensors cover the body without gaps.
func FuzzBinary(f *testing.F) {
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[2],"datatype":"UINT8","parameters":{"binary_data_size":2}},{"name":"y","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}}]}`), []byte("ab\x02\x00\x00\x00hi"))
	f.Add([]byte(`{"inputs":[{"name":"y","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":8}}]}`), []byte("\xff\xff\xff\xff\x00\x00\x00\x00"))
	f.Add([]byte(`{"inputs":[{"name":"y","shape":[0],"datatype":"FP32","parameters":{"binary_data_size":0}}]}`), []byte(""))
	f.Fuzz(func(t *testing.T, header, body []byte) {
		var r Request
		if err := r.ParseRequest(header, body); err != nil {
			demandError(t, err)
			return
		}
		var all []byte
		for i := range r.Inputs {
			in := &r.Inputs[i]
			if in.JSON != nil {
				continue
			}
			n, _ := Elements(in.Shape)
			if size := in.Type.Size(); size > 0 && int64(len(in.Binary)) != n*int64(size) {
				t.Fatalf("%d bytes for %v of %s", len(in.Binary), in.Shape, in.Type)
			}
			all = append(all, in.Binary...)
		}
		if !bytes.Equal(all, body) {
			t.Fatalf("tensors %q do not cover the body %q", all, body)
		}
	})
}

// FuzzDecode: flat data decodes as the standard library reads it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("[1,2.5,-0,1e-7,123456.7,0.1]"))
	f.Add([]byte("[0.30000001192092896]"))
	f.Add([]byte("[0.14509805,0.0039215690,12.1234567,-0.12345678901234567,0.1234567,0.12345678:,3.003921569,0.5]"))
	f.Add([]byte("[0.1450980500000001,0.14509805e1,0.1450980:,1.,1.23456789012345678901234567890]                "))
	f.Fuzz(func(t *testing.T, data []byte) {
		var want []float32
		wantErr := json.Unmarshal(data, &want)
		if bytes.Contains(data, []byte("null")) {
			return // the library leaves zeros for it
		}
		in := Input{Type: catalog.FP32, Shape: []int64{int64(len(want))}, JSON: data}
		got, err := in.Decode(nil, 0)
		if wantErr == nil && len(want) > 0 && err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		if err != nil {
			demandError(t, err)
			return
		}
		for i := range want {
			if v := Value(catalog.FP32, got[4*i:]); wantErr == nil && float32(v) != want[i] {
				t.Fatalf("%q: element %d is %v, want %v", data, i, v, want[i])
			}
		}
	})
}
