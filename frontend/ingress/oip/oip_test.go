package oip

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/symphony-serving/symphony/transport/catalog"
)

func types() []catalog.DataType {
	return []catalog.DataType{catalog.Bool, catalog.Uint8, catalog.Uint16, catalog.Uint32, catalog.Uint64, catalog.Int8, catalog.Int16,
		catalog.Int32, catalog.Int64, catalog.FP16, catalog.FP32, catalog.FP64}
}

// drawTensor draws a shape and the bytes of a tensor that JSON can carry.
func drawTensor(t *rapid.T, dt catalog.DataType) ([]int64, []byte) {
	shape := rapid.SliceOfN(rapid.Int64Range(1, 4), 0, 4).Draw(t, "shape")
	n, _ := Elements(shape)
	var b []byte
	for range n {
		switch dt {
		case catalog.Bool:
			b = append(b, rapid.SampledFrom([]byte{0, 1}).Draw(t, "element"))
		case catalog.FP32:
			f := rapid.Float32().Filter(func(f float32) bool { return !math.IsInf(float64(f), 0) && f == f }).Draw(t, "element")
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
		case catalog.FP64:
			f := rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && f == f }).Draw(t, "element")
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
		default:
			b = append(b, rapid.SliceOfN(rapid.Byte(), dt.Size(), dt.Size()).Draw(t, "element")...)
		}
	}
	return shape, b
}

// A reply's JSON, read as a request, gives the same bytes again; the standard
// library reads it too.
func TestRoundTripJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dt := rapid.SampledFrom(types()).Filter(func(d catalog.DataType) bool { return d != catalog.FP16 }).Draw(t, "type")
		shape, data := drawTensor(t, dt)
		name := rapid.String().Draw(t, "name")
		r := Reply{Model: "m", Version: "1", ID: []byte("i"), Outputs: []Result{{Name: name, Type: dt, Shape: shape, Parts: [][]byte{data}}}}
		b, err := r.AppendHeader(nil)
		if err != nil || !json.Valid(b) {
			t.Fatalf("%v: %s", err, b)
		}
		var q Request
		if err := q.ParseRequest(bytes.Replace(b, []byte(`"outputs":[{"name"`), []byte(`"inputs":[{"name"`), 1), nil); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		in := &q.Inputs[0]
		got, err := in.Decode(nil, 0)
		if err != nil || !bytes.Equal(got, data) || string(in.Name) != name || in.Type != dt || string(q.ID) != "i" {
			t.Fatalf("%v: %s became %x, want %x", err, b, got, data)
		}
	})
}

// Several binary tensors come back as the bytes they were.
func TestRoundTripBinary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Reply
		var all [][]byte
		for i := range rapid.IntRange(1, 5).Draw(t, "tensors") {
			dt := rapid.SampledFrom(types()).Draw(t, "type")
			shape, data := drawTensor(t, dt)
			cut := rapid.IntRange(0, len(data)).Draw(t, "cut")
			r.Outputs = append(r.Outputs, Result{Name: fmt.Sprint(i), Type: dt, Shape: shape, Parts: [][]byte{data[:cut], data[cut:]}, Binary: true})
			all = append(all, data)
		}
		header, err := r.AppendHeader(nil)
		if err != nil {
			t.Fatal(err)
		}
		header = bytes.Replace(header, []byte(`"outputs"`), []byte(`"inputs"`), 1)
		var q Request
		if err := q.ParseRequest(header, r.AppendBinary([]byte{})); err != nil {
			t.Fatalf("%v: %s", err, header)
		}
		for i := range all {
			if !bytes.Equal(q.Inputs[i].Binary, all[i]) {
				t.Fatalf("tensor %d is %x, want %x", i, q.Inputs[i].Binary, all[i])
			}
		}
	})
}

// The fast path for short numbers rounds as strconv does.
func TestNumbersAgreeWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`-?(0|[1-9][0-9]{0,9})(\.[0-9]{1,10})?([eE][-+]?[0-9]{1,2})?`).Draw(t, "number")
		for _, dt := range []catalog.DataType{catalog.FP32, catalog.FP64} {
			in := Input{Type: dt, Shape: []int64{1}, JSON: []byte("[" + text + "]")}
			got, err := in.Decode(nil, 0)
			var want []byte
			var wantErr error
			if dt == catalog.FP32 {
				var f float32
				wantErr = json.Unmarshal([]byte(text), &f)
				want = binary.LittleEndian.AppendUint32(nil, math.Float32bits(f))
			} else {
				var f float64
				wantErr = json.Unmarshal([]byte(text), &f)
				want = binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))
			}
			if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
				t.Fatalf("%s as %s: %x %v, want %x %v", text, dt, got, err, want, wantErr)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	in := func(more string) string { return `{"inputs":[{"name":"x",` + more + `}]}` }
	for body, want := range map[string]string{
		in(`"shape":[2],"datatype":"FP32","data":[1,"]`):               "inputs[0].data: the JSON ends early",
		in(`"shape":[2],"shape":[2],"datatype":"FP32"`):                "inputs[0].shape: given twice",
		in(`"shape":[2,],"datatype":"FP32"`):                           "inputs[0].shape[1]: byte",
		in(`"shape":{},"datatype":"FP32"`):                             "inputs[0].shape: byte",
		in(`"shape":[2],"datatype":5`):                                 "inputs[0].datatype: byte",
		in(`"shape":[2],"datatype":"BF16"`):                            `inputs[0].datatype: "BF16" is no type`,
		in(`"shape":[2],"datatype":"FP32","data":5`):                   "inputs[0].data: byte",
		in(`"shape":[2],"datatype":"FP32","parameters":{"a":1,"b":[}`): "inputs[0].parameters: byte",
		`{"inputs":[1]}`: "inputs[0]: byte",
		`{"outputs":[{"name":"a","parameters":{"classification":-1}}]}`: "outputs[0].parameters.classification: -1 is negative",
		`{"outputs":[{"name":"a","parameters":{"binary_data":0}}]}`:     "outputs[0].parameters.binary_data: byte",
		`{"id":"` + "\t" + `"}`:            "id: byte",
		`{"id":"\ud8"}`:                    "id: byte",
		`{"a":nul}`:                        "a JSON value expected",
		`{"a":+1}`:                         "a number expected",
		`{"a":1 "b":2}`:                    "',' or '}' expected",
		`{a:1}`:                            "a key in quotes expected",
		`{"a" 1}`:                          "':' expected",
		`{"a":1}x`:                         "after its end",
		strings.Repeat("[", 200):           "an object expected",
		`{"a":` + strings.Repeat("[", 200): "deeper than 100",
		`{"inputs":[` + strings.Repeat(in(`"shape":[1],"datatype":"FP32","data":[1]`)[11:len(in(`"shape":[1],"datatype":"FP32","data":[1]`))-2]+",", 300): "more than 256 inputs",
	} {
		var r Request
		err := r.ParseRequest([]byte(body), nil)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", body, err, want)
		}
	}
}

func TestDecodeRefusals(t *testing.T) {
	for _, c := range []struct {
		dt    catalog.DataType
		shape []int64
		data  string
		want  string
	}{
		{catalog.Uint8, []int64{2}, "[1,256]", "inputs[3].data[1]: 256 is out of the range of UINT8"},
		{catalog.Uint8, []int64{2}, "[1,-1]", "inputs[3].data[1]: -1 is out of the range of UINT8"},
		{catalog.Int8, []int64{2}, "[-129,1]", "inputs[3].data[0]: -129"},
		{catalog.Uint64, []int64{1}, "[18446744073709551616]", "out of the range of UINT64"},
		{catalog.Int32, []int64{1}, "[1.5]", "1.5 is not an integer, for INT32"},
		{catalog.Int32, []int64{1}, "[1e2]", "1e2 is not an integer"},
		{catalog.Bool, []int64{1}, "[2]", "true or false expected"},
		{catalog.FP16, []int64{1}, "[2]", "FP16 has no JSON form"},
		{catalog.FP32, []int64{1}, "[1.]", "a digit expected"},
		{catalog.FP32, []int64{1}, "[.5]", "a number"},
		{catalog.FP32, []int64{1}, "[-]", "a number"},
		{catalog.FP32, []int64{1}, "[Infinity]", "infinity have no JSON form"},
		{catalog.FP32, []int64{1}, "[0x10]", "expected"},
		{catalog.FP32, []int64{1}, "[1_0]", "expected"},
		{catalog.FP64, []int64{1}, "[1e400]", "out of the range of FP64"},
		{catalog.FP32, []int64{2}, "[]", "0 elements"},
		{catalog.FP32, []int64{2, 2}, "[[1,2],[3]]", "1 elements in an array at level 1"},
		{catalog.FP32, []int64{2, 2}, "[[1,2]]", "1 arrays at level 0"},
		{catalog.FP32, []int64{2, 2}, "[[1,2],[3,4],[5,6]]", "more than 2 arrays"},
		{catalog.FP32, []int64{2, 2}, "[[1,2],3]", "expected"},
		{catalog.FP32, []int64{2}, "[[1,2]]", "nested deeper"},
		{catalog.FP32, []int64{}, "[1,2]", "more than 1 elements"},
	} {
		in := Input{Type: c.dt, Shape: c.shape, JSON: []byte(c.data)}
		if _, err := in.Decode(nil, 3); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v %s: %v, want %q", c.dt, c.shape, c.data, err, c.want)
		}
	}
}

// Bytes are counted from where the message begins, also in a tensor's data.
func TestDecodeCountsFromTheMessage(t *testing.T) {
	const text = `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data": [1, .5]}]}`
	var r Request
	if err := r.ParseRequest([]byte(text), nil); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("inputs[0].data[1]: byte %d is '.'", strings.Index(text, ".5"))
	if _, err := r.Inputs[0].Decode(nil, 0); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestHalf(t *testing.T) {
	for bits, want := range map[uint16]float64{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 5.960464477539063e-08, 0x7c00: math.Inf(1), 0x3555: 0.333251953125} {
		if got := Value(catalog.FP16, binary.LittleEndian.AppendUint16(nil, bits)); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
}

// NaN and infinity are null: JSON has neither.
func TestNoNumbers(t *testing.T) {
	var b []byte
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	r := Reply{Outputs: []Result{{Name: "y", Type: catalog.FP64, Shape: []int64{4}, Parts: [][]byte{b}}}}
	got, err := r.AppendHeader(nil)
	if err != nil || !strings.Contains(string(got), "[null,null,null,1]") {
		t.Errorf("%s, %v", got, err)
	}
	r.Outputs[0] = Result{Name: "y", Type: catalog.Bytes, Parts: [][]byte{[]byte("\x01\x00\x00\x00\xff")}}
	if _, err := r.AppendHeader(nil); err == nil || !strings.Contains(err.Error(), "not UTF-8") {
		t.Errorf("bytes that are no text: %v", err)
	}
}

// Parsing and decoding into memory that is there allocates nothing.
func TestNoAllocations(t *testing.T) {
	body := []byte(`{"id":"42","inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":[` + strings.Repeat("0.5,0.12345678,", 391) + `1,2]}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]}`)
	var r Request
	dst := make([]byte, 0, 4*784)
	if n := testing.AllocsPerRun(100, func() {
		if err := r.ParseRequest(body, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Inputs[0].Decode(dst, 0); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// Text is refused by its type, which is named; and it is skipped in linear time, each
// string once, where it comes before the type.
func TestBytesAreRefused(t *testing.T) {
	const n = 1 << 19
	for _, body := range []string{
		`{"inputs":[{"name":"x","shape":[524288],"datatype":"BYTES","data":[""]}]}`,
		`{"inputs":[{"name":"x","shape":[524288],"data":[` + strings.Repeat(`"]",`, n-1) + `""],"datatype":"BYTES"}]}`,
		`{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}}]}`,
	} {
		var r Request
		if err := r.ParseRequest([]byte(body), nil); err == nil || !strings.Contains(err.Error(), "inputs[0].datatype: BYTES (text) is not served") {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}
